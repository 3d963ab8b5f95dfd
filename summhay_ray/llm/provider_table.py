"""The providers that litellm knows: their protocol, their domains, and the variables of their keys. Part of the llm room.

By default a provider's key is sent to its domains only.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

# Columns:
# - litellm's prefix (its `LlmProviders`);
# - `openai`: its endpoints accept OpenAI's chat completions unchanged; `own`: its protocol, URL scheme or login needs litellm;
# - the variables of its key, of which the first that is set counts. `*`: litellm can log in with a cloud's credentials, which it
#   does only at these domains; `+`: with a token, too (ANTHROPIC_AUTH_TOKEN); `-`: none is known;
# - its domains, where `*` stands for letters, digits and hyphens. Domains where customers can serve anything (amazonaws.com,
#   googleapis.com as a whole) are left out.
# A line that begins with a space continues the one before.
_TABLE = """
ai21                      openai AI21_API_KEY                               api.ai21.com
ai21_chat                 openai AI21_API_KEY                               api.ai21.com
aiml                      openai AIML_API_KEY                               api.aimlapi.com
amazon_nova               own    AMAZON_NOVA_API_KEY                        api.nova.amazon.com
anthropic                 own    ANTHROPIC_API_KEY,+                        api.anthropic.com
anthropic_text            own    ANTHROPIC_API_KEY,+                        api.anthropic.com
apertis                   openai STIMA_API_KEY                              api.stima.tech
azure                     own    AZURE_API_KEY,AZURE_OPENAI_API_KEY,*       openai.azure.com cognitiveservices.azure.com
                                                                            services.ai.azure.com
azure_ai                  own    AZURE_AI_API_KEY,*                         services.ai.azure.com models.ai.azure.com
                                                                            inference.ai.azure.com openai.azure.com
azure_text                own    AZURE_API_KEY,AZURE_OPENAI_API_KEY,*       openai.azure.com cognitiveservices.azure.com
                                                                            services.ai.azure.com
baseten                   openai BASETEN_API_KEY                            inference.baseten.co api.baseten.co
bedrock                   own    *                                          bedrock-runtime.*.amazonaws.com
                                                                            bedrock-runtime-fips.*.amazonaws.com
                                                                            bedrock-runtime.*.vpce.amazonaws.com
bedrock_mantle            own    *                                          bedrock-mantle.*.api.aws
bytez                     own    BYTEZ_API_KEY                              api.bytez.com
cerebras                  openai CEREBRAS_API_KEY                           api.cerebras.ai
chatgpt                   own    *                                          chatgpt.com auth.openai.com
chutes                    openai CHUTES_API_KEY                             llm.chutes.ai
clarifai                  own    CLARIFAI_API_KEY                           api.clarifai.com
cloudflare                own    CLOUDFLARE_API_KEY                         api.cloudflare.com
codestral                 openai CODESTRAL_API_KEY                          codestral.mistral.ai
cognition                 openai COGNITION_API_KEY                          api.cognition.ai
cohere                    own    COHERE_API_KEY,CO_API_KEY                  api.cohere.ai api.cohere.com
cohere_chat               own    COHERE_API_KEY,CO_API_KEY                  api.cohere.ai api.cohere.com
cometapi                  openai COMETAPI_KEY,COMETAPI_API_KEY              api.cometapi.com
compactifai               own    COMPACTIFAI_API_KEY                        api.compactif.ai
cortecs                   openai CORTECS_API_KEY                            api.cortecs.ai
custom_openai             openai -
darkbloom                 openai DARKBLOOM_API_KEY                          api.darkbloom.dev
dashscope                 openai DASHSCOPE_API_KEY                          dashscope.aliyuncs.com dashscope-intl.aliyuncs.com
databricks                own    *                                          cloud.databricks.com gcp.databricks.com
                                                                            azuredatabricks.net
datarobot                 own    DATAROBOT_API_TOKEN                        app.datarobot.com app.eu.datarobot.com
                                                                            app.jp.datarobot.com
deepinfra                 openai DEEPINFRA_API_KEY                          api.deepinfra.com
deepseek                  openai DEEPSEEK_API_KEY                           api.deepseek.com
docker_model_runner       openai -
edenai                    openai EDENAI_API_KEY                             api.edenai.run
empower                   openai EMPOWER_API_KEY                            app.empower.dev
featherless_ai            openai FEATHERLESS_AI_API_KEY,FEATHERLESS_API_KEY api.featherless.ai
fireworks_ai              openai FIREWORKS_API_KEY,FIREWORKS_AI_API_KEY     api.fireworks.ai
friendliai                openai FRIENDLIAI_API_KEY,FRIENDLI_TOKEN          api.friendli.ai
galadriel                 openai GALADRIEL_API_KEY                          api.galadriel.com
gdc                       own    -
gemini                    own    GEMINI_API_KEY,GOOGLE_API_KEY              generativelanguage.googleapis.com
gigachat                  own    *                                          gigachat.devices.sberbank.ru ngw.devices.sberbank.ru
github                    openai GITHUB_API_KEY                             models.inference.ai.azure.com models.github.ai
github_copilot            own    *                                          githubcopilot.com api.github.com
gradient_ai               own    GRADIENT_AI_API_KEY                        inference.do-ai.run
groq                      openai GROQ_API_KEY                               api.groq.com
helicone                  openai HELICONE_API_KEY                           ai-gateway.helicone.ai
heroku                    own    HEROKU_API_KEY                             inference.heroku.com
hosted_vllm               openai -
huggingface               own    HUGGINGFACE_API_KEY,HF_TOKEN               router.huggingface.co api-inference.huggingface.co
hyperbolic                openai HYPERBOLIC_API_KEY                         api.hyperbolic.xyz
inception                 openai INCEPTION_API_KEY                          api.inceptionlabs.ai
lambda_ai                 openai LAMBDA_API_KEY                             api.lambda.ai
langgraph                 own    -
lemonade                  own    -
libertai                  openai LIBERTAI_API_KEY                           api.libertai.io
litellm_proxy             openai -
llamafile                 openai -
lm_studio                 openai -
maritalk                  own    MARITALK_API_KEY                           chat.maritaca.ai
meta                      openai META_API_KEY                               api.meta.ai
meta_llama                openai LLAMA_API_KEY                              api.llama.com
minimax                   own    MINIMAX_API_KEY                            api.minimax.io api.minimaxi.com
mistral                   openai MISTRAL_API_KEY                            api.mistral.ai
modelscope                openai MODELSCOPE_API_KEY                         api-inference.modelscope.cn
moonshot                  openai MOONSHOT_API_KEY                           api.moonshot.ai api.moonshot.cn
morph                     openai MORPH_API_KEY                              api.morphllm.com
nano-gpt                  openai NANOGPT_API_KEY                            nano-gpt.com
nebius                    openai NEBIUS_API_KEY                             api.studio.nebius.ai api.studio.nebius.com
nlp_cloud                 own    NLP_CLOUD_API_KEY                          api.nlpcloud.io
novita                    openai NOVITA_API_KEY                             api.novita.ai
nscale                    openai NSCALE_API_KEY                             inference.api.nscale.com
nvidia_nim                openai NVIDIA_NIM_API_KEY                         integrate.api.nvidia.com
oci                       own    *                                          oci.oraclecloud.com
ollama                    own    -
ollama_chat               own    -
oobabooga                 own    -
openai                    openai OPENAI_API_KEY                             api.openai.com
openai_like               openai -
openrouter                openai OPENROUTER_API_KEY,OR_API_KEY              openrouter.ai
ovhcloud                  own    OVHCLOUD_API_KEY                           endpoints.kepler.ai.cloud.ovh.net
parasail                  openai PARASAIL_API_KEY                           api.parasail.io
perplexity                openai PERPLEXITYAI_API_KEY,PERPLEXITY_API_KEY    api.perplexity.ai
petals                    own    -
pinstripes                openai PINSTRIPES_API_KEY                         pinstripes.io
poe                       openai POE_API_KEY                                api.poe.com
predibase                 own    PREDIBASE_API_KEY                          serving.app.predibase.com
prism                     openai PRISM_API_KEY                              api.prisminference.com
publicai                  openai PUBLICAI_API_KEY                           api.publicai.co
qwen_ai_platform          openai QWEN_AI_PLATFORM_API_KEY,DASHSCOPE_API_KEY dashscope.aliyuncs.com
qwencloud                 openai QWENCLOUD_API_KEY,DASHSCOPE_API_KEY        dashscope-intl.aliyuncs.com
ragflow                   openai -
reka                      openai REKA_API_KEY                               api.reka.ai
replicate                 own    REPLICATE_API_KEY,REPLICATE_API_TOKEN      api.replicate.com
sagemaker                 own    *                                          runtime.sagemaker.*.amazonaws.com
sagemaker_chat            own    *                                          runtime.sagemaker.*.amazonaws.com
sagemaker_nova            own    *                                          runtime.sagemaker.*.amazonaws.com
sail                      openai SAIL_API_KEY                               api.sailresearch.com
sambanova                 openai SAMBANOVA_API_KEY                          api.sambanova.ai
sap                       own    *                                          ml.hana.ondemand.com
                                                                            authentication.*.hana.ondemand.com
scaleway                  own    SCW_SECRET_KEY                             api.scaleway.ai
scx-ai                    openai SCX_API_KEY                                api.scx.ai
snowflake                 own    SNOWFLAKE_JWT                              snowflakecomputing.com
synthetic                 openai SYNTHETIC_API_KEY                          api.synthetic.new
tencent                   openai TENCENT_API_KEY                            tokenhub-intl.tencentcloudmaas.com
tensormesh                openai TENSORMESH_INFERENCE_API_KEY               serverless.tensormesh.ai
text-completion-codestral own    CODESTRAL_API_KEY                          codestral.mistral.ai
text-completion-inception own    INCEPTION_API_KEY                          api.inceptionlabs.ai
text-completion-openai    own    OPENAI_API_KEY                             api.openai.com
together_ai               openai TOGETHERAI_API_KEY,TOGETHER_API_KEY        api.together.xyz api.together.ai
triton                    own    -
v0                        openai V0_API_KEY                                 api.v0.dev
vercel_ai_gateway         openai VERCEL_AI_GATEWAY_API_KEY                  ai-gateway.vercel.sh
vertex_ai                 own    *                                          aiplatform.googleapis.com
                                                                            *-aiplatform.googleapis.com
vertex_ai_beta            own    *                                          aiplatform.googleapis.com
                                                                            *-aiplatform.googleapis.com
vllm                      openai -
volcengine                openai VOLCENGINE_API_KEY,ARK_API_KEY             ark.cn-beijing.volces.com
wandb                     openai WANDB_API_KEY                              api.inference.wandb.ai
watsonx                   own    *                                          ml.cloud.ibm.com iam.cloud.ibm.com
watsonx_text              own    *                                          ml.cloud.ibm.com iam.cloud.ibm.com
xai                       openai XAI_API_KEY                                api.x.ai
xiaomi_mimo               own    XIAOMI_MIMO_API_KEY                        api.xiaomimimo.com
xinference                openai -
zai                       openai ZAI_API_KEY                                api.z.ai
"""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider's row in the table."""

    protocol: Literal["openai", "own"]
    variables: tuple[str, ...]
    login: bool
    """Whether litellm can log in without a key, with a cloud's credentials."""
    token: bool
    """Whether the provider accepts a token in place of a key."""
    domains: tuple[str, ...]

    def holds(self, host: str) -> bool:
        """Whether the host is one of the domains or a subdomain of one."""
        return any(re.fullmatch(rf"(.+\.)?{_pattern(domain)}", host) for domain in self.domains)


def _pattern(domain: str) -> str:
    return re.escape(domain).replace(r"\*", "[a-z0-9-]+")


def _read(line: str) -> tuple[str, Provider]:
    name, protocol, variables, *domains = line.split()
    names = variables.split(",")
    known = tuple(name for name in names if name not in "*+-")
    return name, Provider("openai" if protocol == "openai" else "own", known, "*" in names, "+" in names, tuple(domains))


PROVIDERS = dict(_read(line) for line in re.split(r"\n(?! )", _TABLE.strip()))
"""litellm's prefix -> the provider."""

WITH_DOMAINS = {name: provider for name, provider in PROVIDERS.items() if provider.domains}
"""The providers that have domains of their own."""

ANYWHERE = frozenset({"hosted_vllm", "vllm", "litellm_proxy", "openai_like", "custom_openai", "lm_studio", "llamafile"})
"""Providers that are only a protocol: their key is meant for the user's own endpoint."""

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})

# URLs that all parsers read alike: no user, no escapes, no backslash, no white space, ASCII only.
_PLAIN = re.compile(r"(https?)://(?:([a-z0-9.-]+)|\[([0-9a-f:.]+)\])(?::[0-9]{1,5})?(?:/[!-\[\]-~]*)?", re.IGNORECASE | re.ASCII)

Place = Literal["own", "here", "http", "elsewhere"]
"""own: the provider's own domain. here: this machine. http: some provider's domain, but without TLS. elsewhere: any other."""


@functools.lru_cache
def place_of(provider: str, url: str | None) -> Place:
    """Where the URL leads, seen from the provider. Without a URL litellm goes to the provider's own domain."""
    if not url:
        return "own"
    scheme, host = _parts(url)
    if host in _HERE:
        return "here"
    if scheme == "http" and any(known.holds(host) for known in WITH_DOMAINS.values()):
        return "http"
    known = WITH_DOMAINS.get(provider)
    return "own" if known is not None and scheme == "https" and known.holds(host) else "elsewhere"


def _parts(url: str) -> tuple[str, str]:
    """Scheme and host in lower case; both empty if parsers might disagree about the URL."""
    match = _PLAIN.fullmatch(url)
    return (match[1].lower(), (match[2] or match[3]).lower()) if match else ("", "")


@functools.lru_cache
def origin_of(provider: str, url: str | None) -> str:
    """Where a model answers: scheme, host and port of the URL; without a URL, of the provider's domain.

    Without a URL, it is the provider's name if the provider has several domains or none that is known.
    """
    if not url:
        domains = WITH_DOMAINS[provider].domains if provider in WITH_DOMAINS else ()
        one_place = len(domains) == 1 and "*" not in domains[0]
        return f"https://{domains[0]}:443" if one_place else provider
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}:{parts.port or {'http': 80, 'https': 443}.get(parts.scheme, 0)}"


def own_variables(provider: str) -> tuple[str, ...]:
    """The variables that may hold the provider's key."""
    known = WITH_DOMAINS.get(provider)
    return known.variables if known is not None else (f"{provider.upper().replace('-', '_')}_API_KEY",)


def needed_variables(provider: str) -> tuple[str, ...]:
    """The variables of which one must hold a key (or token) to ask the provider itself. Empty if none is needed or known."""
    known = WITH_DOMAINS.get(provider)
    if known is None or known.login:
        return ()
    return (*known.variables, *(("ANTHROPIC_AUTH_TOKEN",) if known.token else ()))
