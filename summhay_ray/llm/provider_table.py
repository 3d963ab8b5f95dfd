"""The providers that litellm knows: protocol, services, keys, domains and the fields of `extra`. Part of the llm room.

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
# - its services: `chat`, `embed`, `rerank` in Cohere's form, `rerank*` in a form of its own, which litellm speaks. A service that
#   litellm asks past httpx (SageMaker's embeddings, by boto3) is left out, since `outgoing` cannot judge it;
# - the variables of its key, of which the first that is set counts. `*`: litellm can log in with a cloud's credentials, which it
#   does only at these domains; `+`: with a token, too (ANTHROPIC_AUTH_TOKEN); `-`: none is known;
# - its domains, where `*` stands for letters, digits and hyphens. Domains where customers can serve anything (amazonaws.com,
#   googleapis.com as a whole) are left out. `*` alone: the provider is only a protocol, and its key is meant for the user's own
#   endpoint;
# - with a `+`: what `extra` may hold besides `SAMPLING` where litellm sends the request. litellm reads some three hundred names,
#   among them addresses of logins, files of keys and callbacks: none of these may stand here.
# A line that begins with a space continues the one before.
_TABLE = """
ai21                      openai chat               AI21_API_KEY                  api.ai21.com
ai21_chat                 openai chat               AI21_API_KEY                  api.ai21.com
aiml                      openai chat,embed         AIML_API_KEY                  api.aimlapi.com
amazon_nova               own    chat               AMAZON_NOVA_API_KEY           api.nova.amazon.com
anthropic                 own    chat               ANTHROPIC_API_KEY,+           api.anthropic.com +output_config
anthropic_text            own    chat               ANTHROPIC_API_KEY,+           api.anthropic.com
apertis                   openai chat               STIMA_API_KEY                 api.stima.tech
azure                     own    chat,embed         AZURE_API_KEY,AZURE_OPENAI_API_KEY,* openai.azure.com
                                                    cognitiveservices.azure.com services.ai.azure.com +api_version +extra_body
azure_ai                  own    chat,embed,rerank* AZURE_AI_API_KEY,*            services.ai.azure.com models.ai.azure.com
                                                    inference.ai.azure.com openai.azure.com +api_version +extra_body
azure_text                own    chat               AZURE_API_KEY,AZURE_OPENAI_API_KEY,* openai.azure.com
                                                    cognitiveservices.azure.com services.ai.azure.com +api_version +extra_body
baseten                   openai chat               BASETEN_API_KEY               inference.baseten.co api.baseten.co
bedrock                   own    chat,embed,rerank* *                             bedrock-runtime.*.amazonaws.com
                                                    bedrock-runtime-fips.*.amazonaws.com bedrock-runtime.*.vpce.amazonaws.com
                                                    bedrock-agent-runtime.*.amazonaws.com +aws_region_name +model_id
                                                    +guardrailConfig +performanceConfig +requestMetadata
bedrock_mantle            own    chat               *                             bedrock-mantle.*.api.aws +aws_region_name
bytez                     own    chat               BYTEZ_API_KEY                 api.bytez.com
cerebras                  openai chat               CEREBRAS_API_KEY              api.cerebras.ai
chatgpt                   own    chat               *                             chatgpt.com auth.openai.com
chutes                    openai chat               CHUTES_API_KEY                llm.chutes.ai
clarifai                  own    chat               CLARIFAI_API_KEY              api.clarifai.com
cloudflare                own    chat               CLOUDFLARE_API_KEY            api.cloudflare.com
codestral                 openai chat               CODESTRAL_API_KEY             codestral.mistral.ai
cognition                 openai chat               COGNITION_API_KEY             api.cognition.ai
cohere                    own    chat,embed,rerank  COHERE_API_KEY,CO_API_KEY     api.cohere.com api.cohere.ai
cohere_chat               own    chat,embed,rerank  COHERE_API_KEY,CO_API_KEY     api.cohere.com api.cohere.ai
cometapi                  openai chat,embed         COMETAPI_KEY,COMETAPI_API_KEY api.cometapi.com
compactifai               own    chat               COMPACTIFAI_API_KEY           api.compactif.ai
cortecs                   openai chat               CORTECS_API_KEY               api.cortecs.ai
custom_openai             openai chat               -                             *
darkbloom                 openai chat               DARKBLOOM_API_KEY             api.darkbloom.dev
dashscope                 openai chat,embed,rerank* DASHSCOPE_API_KEY             dashscope.aliyuncs.com
                                                    dashscope-intl.aliyuncs.com
databricks                own    chat,embed         *                             cloud.databricks.com gcp.databricks.com
                                                    azuredatabricks.net
datarobot                 own    chat               DATAROBOT_API_TOKEN           app.datarobot.com app.eu.datarobot.com
                                                    app.jp.datarobot.com
deepinfra                 openai chat,embed,rerank* DEEPINFRA_API_KEY             api.deepinfra.com
deepseek                  openai chat               DEEPSEEK_API_KEY              api.deepseek.com
docker_model_runner       openai chat               -
edenai                    openai chat,embed         EDENAI_API_KEY                api.edenai.run
empower                   openai chat               EMPOWER_API_KEY               app.empower.dev
featherless_ai            openai chat               FEATHERLESS_AI_API_KEY,FEATHERLESS_API_KEY api.featherless.ai
fireworks_ai              openai chat,embed,rerank* FIREWORKS_API_KEY,FIREWORKS_AI_API_KEY api.fireworks.ai
friendliai                openai chat               FRIENDLIAI_API_KEY,FRIENDLI_TOKEN api.friendli.ai
galadriel                 openai chat               GALADRIEL_API_KEY             api.galadriel.com
gdc                       own    chat               -                             +vertex_project +vertex_location
gemini                    own    chat,embed         GEMINI_API_KEY,GOOGLE_API_KEY generativelanguage.googleapis.com
                                                    +safety_settings +task_type
gigachat                  own    chat,embed         *                             gigachat.devices.sberbank.ru
                                                    ngw.devices.sberbank.ru
github                    openai chat,embed         GITHUB_API_KEY                models.inference.ai.azure.com
                                                    models.github.ai
github_copilot            own    chat,embed         *                             githubcopilot.com api.github.com
gradient_ai               own    chat               GRADIENT_AI_API_KEY           inference.do-ai.run
groq                      openai chat               GROQ_API_KEY                  api.groq.com
helicone                  openai chat               HELICONE_API_KEY              ai-gateway.helicone.ai
heroku                    own    chat               HEROKU_API_KEY                inference.heroku.com
hosted_vllm               openai chat,embed         -                             *
huggingface               own    chat,rerank*       HUGGINGFACE_API_KEY,HF_TOKEN  router.huggingface.co
                                                    api-inference.huggingface.co +do_sample +truncate +typical_p
hyperbolic                openai chat               HYPERBOLIC_API_KEY            api.hyperbolic.xyz
inception                 openai chat               INCEPTION_API_KEY             api.inceptionlabs.ai
infinity                  openai embed,rerank*      -
jina_ai                   openai embed,rerank*      JINA_AI_API_KEY,JINA_API_KEY  api.jina.ai
lambda_ai                 openai chat               LAMBDA_API_KEY                api.lambda.ai
langgraph                 own    chat               -
lemonade                  own    chat               -
libertai                  openai chat               LIBERTAI_API_KEY              api.libertai.io
litellm_proxy             openai chat,embed         -                             *
llamafile                 openai chat,embed         -                             *
lm_studio                 openai chat,embed         -                             *
maritalk                  own    chat               MARITALK_API_KEY              chat.maritaca.ai
meta                      openai chat               META_API_KEY                  api.meta.ai
meta_llama                openai chat               LLAMA_API_KEY                 api.llama.com
minimax                   own    chat               MINIMAX_API_KEY               api.minimax.io api.minimaxi.com
mistral                   openai chat,embed         MISTRAL_API_KEY               api.mistral.ai
modelscope                openai chat,embed         MODELSCOPE_API_KEY            api-inference.modelscope.cn
moonshot                  openai chat               MOONSHOT_API_KEY              api.moonshot.ai api.moonshot.cn
morph                     openai chat               MORPH_API_KEY                 api.morphllm.com
nano-gpt                  openai chat,embed         NANOGPT_API_KEY               nano-gpt.com
nebius                    openai chat,embed         NEBIUS_API_KEY                api.studio.nebius.ai api.studio.nebius.com
nlp_cloud                 own    chat               NLP_CLOUD_API_KEY             api.nlpcloud.io
novita                    openai chat,embed         NOVITA_API_KEY                api.novita.ai
nscale                    openai chat,embed         NSCALE_API_KEY                inference.api.nscale.com
nvidia_nim                openai chat,embed         NVIDIA_NIM_API_KEY            integrate.api.nvidia.com
oci                       own    chat,embed         *                             oci.oraclecloud.com +oci_region
                                                    +oci_compartment_id +oci_serving_mode +oci_endpoint_id
ollama                    own    chat,embed         -                             +format +keep_alive +mirostat +mirostat_eta
                                                    +mirostat_tau +num_ctx +num_gpu +num_thread +repeat_last_n +repeat_penalty
                                                    +tfs_z +think
ollama_chat               own    chat               -                             +format +keep_alive +mirostat +mirostat_eta
                                                    +mirostat_tau +num_ctx +num_gpu +num_thread +repeat_last_n +repeat_penalty
                                                    +tfs_z +think
oobabooga                 own    chat,embed         -
openai                    openai chat,embed         OPENAI_API_KEY                api.openai.com
openai_like               openai chat,embed         -                             *
openrouter                openai chat,embed         OPENROUTER_API_KEY,OR_API_KEY openrouter.ai
ovhcloud                  own    chat,embed         OVHCLOUD_API_KEY              endpoints.kepler.ai.cloud.ovh.net
parasail                  openai chat,embed         PARASAIL_API_KEY              api.parasail.io
perplexity                openai chat,embed         PERPLEXITYAI_API_KEY,PERPLEXITY_API_KEY api.perplexity.ai
petals                    own    chat               -
pinstripes                openai chat               PINSTRIPES_API_KEY            pinstripes.io
poe                       openai chat               POE_API_KEY                   api.poe.com
predibase                 own    chat               PREDIBASE_API_KEY             serving.app.predibase.com
prism                     openai chat               PRISM_API_KEY                 api.prisminference.com
publicai                  openai chat               PUBLICAI_API_KEY              api.publicai.co
qwen_ai_platform          openai chat,embed,rerank* QWEN_AI_PLATFORM_API_KEY,DASHSCOPE_API_KEY dashscope.aliyuncs.com
qwencloud                 openai chat,embed,rerank* QWENCLOUD_API_KEY,DASHSCOPE_API_KEY dashscope-intl.aliyuncs.com
ragflow                   openai chat               -
reka                      openai chat               REKA_API_KEY                  api.reka.ai
replicate                 own    chat               REPLICATE_API_KEY,REPLICATE_API_TOKEN api.replicate.com
sagemaker                 own    chat               *                             runtime.sagemaker.*.amazonaws.com
                                                    +aws_region_name +model_id
sagemaker_chat            own    chat               *                             runtime.sagemaker.*.amazonaws.com
                                                    +aws_region_name +model_id
sagemaker_nova            own    chat               *                             runtime.sagemaker.*.amazonaws.com
                                                    +aws_region_name +model_id
sail                      openai chat               SAIL_API_KEY                  api.sailresearch.com
sambanova                 openai chat,embed         SAMBANOVA_API_KEY             api.sambanova.ai
sap                       own    chat,embed         *                             ml.hana.ondemand.com
                                                    authentication.*.hana.ondemand.com
scaleway                  own    chat,embed,rerank* SCW_SECRET_KEY                api.scaleway.ai
scx-ai                    openai chat               SCX_API_KEY                   api.scx.ai
snowflake                 own    chat,embed         SNOWFLAKE_JWT                 snowflakecomputing.com
synthetic                 openai chat               SYNTHETIC_API_KEY             api.synthetic.new
tencent                   openai chat               TENCENT_API_KEY               tokenhub-intl.tencentcloudmaas.com
tensormesh                openai chat               TENSORMESH_INFERENCE_API_KEY  serverless.tensormesh.ai
text-completion-codestral own    chat               CODESTRAL_API_KEY             codestral.mistral.ai
text-completion-inception own    chat               INCEPTION_API_KEY             api.inceptionlabs.ai
text-completion-openai    own    chat               OPENAI_API_KEY                api.openai.com
together_ai               openai chat,embed,rerank* TOGETHERAI_API_KEY,TOGETHER_API_KEY api.together.xyz api.together.ai
triton                    own    chat,embed         -
v0                        openai chat               V0_API_KEY                    api.v0.dev
vercel_ai_gateway         openai chat,embed         VERCEL_AI_GATEWAY_API_KEY     ai-gateway.vercel.sh
vertex_ai                 own    chat,embed,rerank* *                             aiplatform.googleapis.com
                                                    *-aiplatform.googleapis.com discoveryengine.googleapis.com +vertex_project
                                                    +vertex_location +safety_settings +labels +task_type
vertex_ai_beta            own    chat               *                             aiplatform.googleapis.com
                                                    *-aiplatform.googleapis.com +vertex_project +vertex_location
                                                    +safety_settings +labels
vllm                      openai chat               -                             *
volcengine                openai chat,embed         VOLCENGINE_API_KEY,ARK_API_KEY ark.cn-beijing.volces.com
voyage                    openai embed,rerank*      VOYAGE_API_KEY,VOYAGE_AI_API_KEY api.voyageai.com
wandb                     openai chat               WANDB_API_KEY                 api.inference.wandb.ai
watsonx                   own    chat,embed,rerank* *                             ml.cloud.ibm.com iam.cloud.ibm.com
                                                    +project_id +space_id
watsonx_text              own    chat               *                             ml.cloud.ibm.com iam.cloud.ibm.com
                                                    +project_id +space_id
xai                       openai chat               XAI_API_KEY                   api.x.ai
xiaomi_mimo               own    chat               XIAOMI_MIMO_API_KEY           api.xiaomimimo.com
xinference                openai chat,embed         -
zai                       openai chat,embed         ZAI_API_KEY                   api.z.ai
"""


SAMPLING = frozenset(
    {
        "dimensions",
        "encoding_format",
        "frequency_penalty",
        "input_type",
        "logit_bias",
        "min_p",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "safety_identifier",
        "service_tier",
        "stop",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user",
        "verbosity",
    }
)
"""What `extra` may hold for every provider that is asked through litellm: parameters that only enter the body of the request."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider's row in the table."""

    protocol: Literal["openai", "own"]
    services: frozenset[str]
    own_rerank: bool
    """Whether its reranking has a form of its own, which litellm speaks."""
    variables: tuple[str, ...]
    login: bool
    """Whether litellm can log in without a key, with a cloud's credentials."""
    token: bool
    """Whether the provider accepts a token in place of a key."""
    domains: tuple[str, ...]
    anywhere: bool
    """Whether its key is meant for the user's own endpoint, wherever that is."""
    extra: frozenset[str]
    """What `extra` may hold where litellm sends the request."""

    def holds(self, host: str) -> bool:
        """Whether the host is one of the domains or a subdomain of one."""
        return any(re.fullmatch(rf"(.+\.)?{_pattern(domain)}", host) for domain in self.domains)


def _pattern(domain: str) -> str:
    return re.escape(domain).replace(r"\*", "[a-z0-9-]+")


def _read(line: str) -> tuple[str, Provider]:
    name, protocol, services, variables, *rest = line.split()
    names = variables.split(",")
    login, fields = "*" in names, {field[1:] for field in rest if field.startswith("+")}
    return name, Provider(
        protocol="openai" if protocol == "openai" else "own",
        services=frozenset(services.replace("*", "").split(",")),
        own_rerank="*" in services,
        variables=tuple(name for name in names if name not in "*+-"),
        login=login,
        token="+" in names,
        domains=tuple(domain for domain in rest if domain != "*" and not domain.startswith("+")),
        anywhere="*" in rest,
        # With a cloud's login, litellm may take a field of the body for one of the login.
        extra=SAMPLING | fields | (frozenset() if login else {"extra_body"}),
    )


PROVIDERS = dict(_read(line) for line in re.split(r"\n(?! )", _TABLE.strip()))
"""litellm's prefix -> the provider."""

WITH_DOMAINS = {name: provider for name, provider in PROVIDERS.items() if provider.domains}
"""The providers that have domains of their own."""

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
    if scheme == "http" and is_owned(url):
        return "http"
    known = WITH_DOMAINS.get(provider)
    return "own" if known is not None and scheme == "https" and known.holds(host) else "elsewhere"


def is_owned(url: str) -> bool:
    """Whether the URL leads to any provider's domains."""
    _, host = _parts(url)
    return any(known.holds(host) for known in WITH_DOMAINS.values())


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
