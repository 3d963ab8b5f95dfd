"""Each provider's domains and the variables of its key, which by default is sent nowhere else. Part of the llm room."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

# Columns: provider, the variables of its key (the first that is set counts), its domains. Among the variables, `*` means that
# litellm can log in with a cloud's credentials, which it does only at these domains; `+`, with a token besides the key
# (ANTHROPIC_AUTH_TOKEN). In a domain, `*` stands for letters, digits and hyphens. Domains where customers can serve anything
# (amazonaws.com, googleapis.com as a whole) are left out. A line that begins with a space continues the one before.
_TABLE = """
ai21                      AI21_API_KEY                               api.ai21.com
ai21_chat                 AI21_API_KEY                               api.ai21.com
aiml                      AIML_API_KEY                               api.aimlapi.com
amazon_nova               AMAZON_NOVA_API_KEY                        api.nova.amazon.com
anthropic                 ANTHROPIC_API_KEY,+                        api.anthropic.com
anthropic_text            ANTHROPIC_API_KEY,+                        api.anthropic.com
apertis                   STIMA_API_KEY                              api.stima.tech
azure                     AZURE_API_KEY,AZURE_OPENAI_API_KEY,*       openai.azure.com cognitiveservices.azure.com
                                                                     services.ai.azure.com
azure_ai                  AZURE_AI_API_KEY,*                         services.ai.azure.com models.ai.azure.com
                                                                     inference.ai.azure.com openai.azure.com
azure_text                AZURE_API_KEY,AZURE_OPENAI_API_KEY,*       openai.azure.com cognitiveservices.azure.com
                                                                     services.ai.azure.com
baseten                   BASETEN_API_KEY                            inference.baseten.co api.baseten.co
bedrock                   *                                          bedrock-runtime.*.amazonaws.com
                                                                     bedrock-runtime-fips.*.amazonaws.com
                                                                     bedrock-runtime.*.vpce.amazonaws.com
bedrock_mantle            *                                          bedrock-mantle.*.api.aws
bytez                     BYTEZ_API_KEY                              api.bytez.com
cerebras                  CEREBRAS_API_KEY                           api.cerebras.ai
chatgpt                   *                                          chatgpt.com auth.openai.com
chutes                    CHUTES_API_KEY                             llm.chutes.ai
clarifai                  CLARIFAI_API_KEY                           api.clarifai.com
cloudflare                CLOUDFLARE_API_KEY                         api.cloudflare.com
codestral                 CODESTRAL_API_KEY                          codestral.mistral.ai
cognition                 COGNITION_API_KEY                          api.cognition.ai
cohere                    COHERE_API_KEY,CO_API_KEY                  api.cohere.ai api.cohere.com
cohere_chat               COHERE_API_KEY,CO_API_KEY                  api.cohere.ai api.cohere.com
cometapi                  COMETAPI_KEY,COMETAPI_API_KEY              api.cometapi.com
compactifai               COMPACTIFAI_API_KEY                        api.compactif.ai
cortecs                   CORTECS_API_KEY                            api.cortecs.ai
darkbloom                 DARKBLOOM_API_KEY                          api.darkbloom.dev
dashscope                 DASHSCOPE_API_KEY                          dashscope.aliyuncs.com dashscope-intl.aliyuncs.com
databricks                *                                          cloud.databricks.com gcp.databricks.com azuredatabricks.net
datarobot                 DATAROBOT_API_TOKEN                        app.datarobot.com app.eu.datarobot.com app.jp.datarobot.com
deepinfra                 DEEPINFRA_API_KEY                          api.deepinfra.com
deepseek                  DEEPSEEK_API_KEY                           api.deepseek.com
edenai                    EDENAI_API_KEY                             api.edenai.run
empower                   EMPOWER_API_KEY                            app.empower.dev
featherless_ai            FEATHERLESS_AI_API_KEY,FEATHERLESS_API_KEY api.featherless.ai
fireworks_ai              FIREWORKS_API_KEY,FIREWORKS_AI_API_KEY     api.fireworks.ai
friendliai                FRIENDLIAI_API_KEY,FRIENDLI_TOKEN          api.friendli.ai
galadriel                 GALADRIEL_API_KEY                          api.galadriel.com
gemini                    GEMINI_API_KEY,GOOGLE_API_KEY              generativelanguage.googleapis.com
gigachat                  *                                          gigachat.devices.sberbank.ru ngw.devices.sberbank.ru
github                    GITHUB_API_KEY                             models.inference.ai.azure.com models.github.ai
github_copilot            *                                          githubcopilot.com api.github.com
gradient_ai               GRADIENT_AI_API_KEY                        inference.do-ai.run
groq                      GROQ_API_KEY                               api.groq.com
helicone                  HELICONE_API_KEY                           ai-gateway.helicone.ai
heroku                    HEROKU_API_KEY                             inference.heroku.com
huggingface               HUGGINGFACE_API_KEY,HF_TOKEN               router.huggingface.co api-inference.huggingface.co
hyperbolic                HYPERBOLIC_API_KEY                         api.hyperbolic.xyz
inception                 INCEPTION_API_KEY                          api.inceptionlabs.ai
lambda_ai                 LAMBDA_API_KEY                             api.lambda.ai
libertai                  LIBERTAI_API_KEY                           api.libertai.io
maritalk                  MARITALK_API_KEY                           chat.maritaca.ai
meta                      META_API_KEY                               api.meta.ai
meta_llama                LLAMA_API_KEY                              api.llama.com
minimax                   MINIMAX_API_KEY                            api.minimax.io api.minimaxi.com
mistral                   MISTRAL_API_KEY                            api.mistral.ai
modelscope                MODELSCOPE_API_KEY                         api-inference.modelscope.cn
moonshot                  MOONSHOT_API_KEY                           api.moonshot.ai api.moonshot.cn
morph                     MORPH_API_KEY                              api.morphllm.com
nano-gpt                  NANOGPT_API_KEY                            nano-gpt.com
nebius                    NEBIUS_API_KEY                             api.studio.nebius.ai api.studio.nebius.com
nlp_cloud                 NLP_CLOUD_API_KEY                          api.nlpcloud.io
novita                    NOVITA_API_KEY                             api.novita.ai
nscale                    NSCALE_API_KEY                             inference.api.nscale.com
nvidia_nim                NVIDIA_NIM_API_KEY                         integrate.api.nvidia.com
oci                       *                                          oci.oraclecloud.com
openai                    OPENAI_API_KEY                             api.openai.com
openrouter                OPENROUTER_API_KEY,OR_API_KEY              openrouter.ai
ovhcloud                  OVHCLOUD_API_KEY                           endpoints.kepler.ai.cloud.ovh.net
parasail                  PARASAIL_API_KEY                           api.parasail.io
perplexity                PERPLEXITYAI_API_KEY,PERPLEXITY_API_KEY    api.perplexity.ai
pinstripes                PINSTRIPES_API_KEY                         pinstripes.io
poe                       POE_API_KEY                                api.poe.com
predibase                 PREDIBASE_API_KEY                          serving.app.predibase.com
prism                     PRISM_API_KEY                              api.prisminference.com
publicai                  PUBLICAI_API_KEY                           api.publicai.co
qwen_ai_platform          QWEN_AI_PLATFORM_API_KEY,DASHSCOPE_API_KEY dashscope.aliyuncs.com
qwencloud                 QWENCLOUD_API_KEY,DASHSCOPE_API_KEY        dashscope-intl.aliyuncs.com
reka                      REKA_API_KEY                               api.reka.ai
replicate                 REPLICATE_API_KEY,REPLICATE_API_TOKEN      api.replicate.com
sagemaker                 *                                          runtime.sagemaker.*.amazonaws.com
sagemaker_chat            *                                          runtime.sagemaker.*.amazonaws.com
sagemaker_nova            *                                          runtime.sagemaker.*.amazonaws.com
sail                      SAIL_API_KEY                               api.sailresearch.com
sambanova                 SAMBANOVA_API_KEY                          api.sambanova.ai
sap                       *                                          ml.hana.ondemand.com authentication.*.hana.ondemand.com
scaleway                  SCW_SECRET_KEY                             api.scaleway.ai
scx-ai                    SCX_API_KEY                                api.scx.ai
snowflake                 SNOWFLAKE_JWT                              snowflakecomputing.com
synthetic                 SYNTHETIC_API_KEY                          api.synthetic.new
tencent                   TENCENT_API_KEY                            tokenhub-intl.tencentcloudmaas.com
tensormesh                TENSORMESH_INFERENCE_API_KEY               serverless.tensormesh.ai
text-completion-codestral CODESTRAL_API_KEY                          codestral.mistral.ai
text-completion-inception INCEPTION_API_KEY                          api.inceptionlabs.ai
text-completion-openai    OPENAI_API_KEY                             api.openai.com
together_ai               TOGETHERAI_API_KEY,TOGETHER_API_KEY        api.together.xyz api.together.ai
v0                        V0_API_KEY                                 api.v0.dev
vercel_ai_gateway         VERCEL_AI_GATEWAY_API_KEY                  ai-gateway.vercel.sh
vertex_ai                 *                                          aiplatform.googleapis.com *-aiplatform.googleapis.com
vertex_ai_beta            *                                          aiplatform.googleapis.com *-aiplatform.googleapis.com
volcengine                VOLCENGINE_API_KEY,ARK_API_KEY             ark.cn-beijing.volces.com
wandb                     WANDB_API_KEY                              api.inference.wandb.ai
watsonx                   *                                          ml.cloud.ibm.com iam.cloud.ibm.com
watsonx_text              *                                          ml.cloud.ibm.com iam.cloud.ibm.com
xai                       XAI_API_KEY                                api.x.ai
xiaomi_mimo               XIAOMI_MIMO_API_KEY                        api.xiaomimimo.com
zai                       ZAI_API_KEY                                api.z.ai
"""


@dataclass(frozen=True, slots=True)
class Home:
    """One provider's entry in the table."""

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


def _read(line: str) -> tuple[str, Home]:
    provider, variables, *domains = line.split()
    names = variables.split(",")
    return provider, Home(tuple(name for name in names if name not in "*+"), "*" in names, "+" in names, tuple(domains))


HOMES = dict(_read(line) for line in re.split(r"\n(?! )", _TABLE.strip()))
"""Provider -> its home, for the providers with fixed domains."""

ANYWHERE = frozenset({"hosted_vllm", "vllm", "litellm_proxy", "openai_like", "custom_openai", "lm_studio", "llamafile"})
"""Providers that are only a protocol: their key is meant for the user's own endpoint."""

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})

# URLs that all parsers read alike: no user, no escapes, no backslash, no white space, ASCII only.
_PLAIN = re.compile(r"(https?)://(?:([a-z0-9.-]+)|\[([0-9a-f:.]+)\])(?::[0-9]{1,5})?(?:/[!-\[\]-~]*)?", re.IGNORECASE | re.ASCII)

Place = Literal["home", "here", "clear", "elsewhere"]
"""home: the provider's own domain. here: this machine. clear: some provider's domain, but over http. elsewhere: any other."""


@functools.lru_cache
def place_of(provider: str, url: str | None) -> Place:
    """Where the URL leads, seen from the provider. Without a URL litellm goes to the provider's own domain."""
    if not url:
        return "home"
    scheme, host = _parts(url)
    if host in _HERE:
        return "here"
    if scheme == "http" and any(home.holds(host) for home in HOMES.values()):
        return "clear"
    home = HOMES.get(provider)
    return "home" if home is not None and scheme == "https" and home.holds(host) else "elsewhere"


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
        domains = HOMES[provider].domains if provider in HOMES else ()
        one_place = len(domains) == 1 and "*" not in domains[0]
        return f"https://{domains[0]}:443" if one_place else provider
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}:{parts.port or {'http': 80, 'https': 443}.get(parts.scheme, 0)}"


def own_variables(provider: str) -> tuple[str, ...]:
    """The variables that may hold the provider's key."""
    home = HOMES.get(provider)
    return home.variables if home is not None else (f"{provider.upper().replace('-', '_')}_API_KEY",)


def needed_variables(provider: str) -> tuple[str, ...]:
    """The variables of which one must hold a key (or token) to ask the provider itself. Empty if none is needed or known."""
    home = HOMES.get(provider)
    if home is None or home.login:
        return ()
    return (*home.variables, *(("ANTHROPIC_AUTH_TOKEN",) if home.token else ()))
