"""The table of providers: services, addresses, keys, domains, names and special cases. Finds a model's provider by its name.

A provider with OpenAI's protocol needs one row. Its key is sent only to the domains in that row.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from summhay_ray import routes
from summhay_ray.llm.request import Task

# Each row describes one provider. Its first three columns are:
# - the prefix of its model names, which is litellm's name (`LlmProviders`) if requests go through litellm;
# - its services: `chat` and `embed` in OpenAI's format, `rerank` in Cohere's, `batch` in OpenAI's (not used yet).
#   A `*` marks a service with its own protocol or login, which litellm implements. A service that litellm calls without httpx
#   (SageMaker's embeddings, by boto3) is left out, since `via_litellm` cannot check it;
# - the variables of its key. The first one that is set is used. `*`: litellm can log in with a cloud's credentials, but only at
#   the domains in this row. `+`: a token (ANTHROPIC_AUTH_TOKEN) is accepted as well. `-`: no variable is known.
# Then follow, in any order:
# - the base URL of its services, which are at /chat/completions, /embeddings and /rerank below it. Requests to a service without
#   a `*` go there directly. Without a base URL, litellm finds the address;
# - further domains, in which `*` matches letters, digits and hyphens. The key is sent only to these domains and to that of the
#   base URL. Domains where customers can serve anything (all of amazonaws.com or googleapis.com) are left out. `*` alone: the
#   provider is only a protocol, and its key is for the user's own endpoint;
# - `bare=`: a regular expression for the provider's model names without a prefix, as in litellm;
# - `prices=`: the prefix of its models in litellm's price map, if that prefix differs;
# - `models=`: the prefix that its service adds to a model's name without a slash;
# - `a>b`: the field `a` of a request or a reranking is named `b` at its service;
# - `+NAME`: a field that `extra` may contain in addition to `SAMPLING`. litellm reads about three hundred names, including login
#   URLs, key files and callbacks: never add these here.
# A line that begins with a space continues the previous line.
_TABLE = """
ai21                      chat                   AI21_API_KEY                https://api.ai21.com/studio/v1
ai21_chat                 chat                   AI21_API_KEY                https://api.ai21.com/studio/v1
aiml                      chat,embed             AIML_API_KEY                https://api.aimlapi.com/v1
amazon_nova               chat                   AMAZON_NOVA_API_KEY         https://api.nova.amazon.com/v1 prices=amazon-nova
anthropic                 chat*                  ANTHROPIC_API_KEY,+         api.anthropic.com bare=claude- +output_config
anthropic_text            chat*                  ANTHROPIC_API_KEY,+         api.anthropic.com
apertis                   chat                   STIMA_API_KEY               https://api.stima.tech/v1
azure                     chat*,embed*           AZURE_API_KEY,AZURE_OPENAI_API_KEY,* openai.azure.com cognitiveservices.azure.com
                                                    services.ai.azure.com +api_version +extra_body
azure_ai                  chat*,embed*,rerank*   AZURE_AI_API_KEY,*          services.ai.azure.com models.ai.azure.com
                                                    inference.ai.azure.com openai.azure.com +api_version +extra_body
azure_text                chat*                  AZURE_API_KEY,AZURE_OPENAI_API_KEY,* openai.azure.com cognitiveservices.azure.com
                                                    services.ai.azure.com prices=azure +api_version +extra_body
baseten                   chat                   BASETEN_API_KEY             inference.baseten.co api.baseten.co
bedrock                   chat*,embed*,rerank*   *                           bedrock-runtime.*.amazonaws.com
                                                    bedrock-runtime-fips.*.amazonaws.com bedrock-runtime.*.vpce.amazonaws.com
                                                    bedrock-agent-runtime.*.amazonaws.com +aws_region_name +model_id
                                                    +guardrailConfig +performanceConfig +requestMetadata
bedrock_mantle            chat*                  *                           bedrock-mantle.*.api.aws +aws_region_name
bytez                     chat*                  BYTEZ_API_KEY               api.bytez.com
cerebras                  chat                   CEREBRAS_API_KEY            https://api.cerebras.ai/v1
chatgpt                   chat*                  *                           chatgpt.com auth.openai.com
chutes                    chat                   CHUTES_API_KEY              https://llm.chutes.ai/v1
clarifai                  chat*                  CLARIFAI_API_KEY            api.clarifai.com
cloudflare                chat*                  CLOUDFLARE_API_KEY          api.cloudflare.com
codestral                 chat                   CODESTRAL_API_KEY           https://codestral.mistral.ai/v1 seed>random_seed
cognition                 chat                   COGNITION_API_KEY           https://api.cognition.ai/v1
cohere                    chat*,embed*,rerank    COHERE_API_KEY,CO_API_KEY   https://api.cohere.com/v2 api.cohere.ai
                                                    bare=command(-|$)
cohere_chat               chat*,embed*,rerank    COHERE_API_KEY,CO_API_KEY   https://api.cohere.com/v2 api.cohere.ai
cometapi                  chat,embed             COMETAPI_KEY,COMETAPI_API_KEY https://api.cometapi.com/v1
compactifai               chat                   COMPACTIFAI_API_KEY         https://api.compactif.ai/v1
cortecs                   chat                   CORTECS_API_KEY             https://api.cortecs.ai/v1
custom_openai             chat                   -                           *
darkbloom                 chat                   DARKBLOOM_API_KEY           https://api.darkbloom.dev/v1
dashscope                 chat,embed,rerank*     DASHSCOPE_API_KEY           https://dashscope.aliyuncs.com/compatible-mode/v1
                                                    dashscope-intl.aliyuncs.com
databricks                chat*,embed*           *                           cloud.databricks.com gcp.databricks.com
                                                    azuredatabricks.net
datarobot                 chat*                  DATAROBOT_API_TOKEN         app.datarobot.com app.eu.datarobot.com
                                                    app.jp.datarobot.com
deepinfra                 chat,embed,rerank*     DEEPINFRA_API_KEY           https://api.deepinfra.com/v1/openai
deepseek                  chat                   DEEPSEEK_API_KEY            https://api.deepseek.com/beta
docker_model_runner       chat                   -
edenai                    chat,embed             EDENAI_API_KEY              https://api.edenai.run/v3
empower                   chat                   EMPOWER_API_KEY             https://app.empower.dev/api/v1
featherless_ai            chat                   FEATHERLESS_AI_API_KEY,FEATHERLESS_API_KEY https://api.featherless.ai/v1
fireworks_ai              chat,embed,rerank      FIREWORKS_API_KEY,FIREWORKS_AI_API_KEY https://api.fireworks.ai/inference/v1
                                                    models=accounts/fireworks/models/ results>data
friendliai                chat                   FRIENDLIAI_API_KEY,FRIENDLI_TOKEN https://api.friendli.ai/serverless/v1
galadriel                 chat                   GALADRIEL_API_KEY           https://api.galadriel.com/v1
gdc                       chat*                  -                           +vertex_project +vertex_location
gemini                    chat*,embed*           GEMINI_API_KEY,GOOGLE_API_KEY generativelanguage.googleapis.com +safety_settings
                                                    +task_type
gigachat                  chat*,embed*           *                           gigachat.devices.sberbank.ru ngw.devices.sberbank.ru
github                    chat,embed             GITHUB_API_KEY              https://models.inference.ai.azure.com
                                                    models.github.ai
github_copilot            chat*,embed*           *                           githubcopilot.com api.github.com
gradient_ai               chat*                  GRADIENT_AI_API_KEY         inference.do-ai.run
groq                      chat,batch             GROQ_API_KEY                https://api.groq.com/openai/v1
helicone                  chat                   HELICONE_API_KEY            https://ai-gateway.helicone.ai
heroku                    chat*                  HEROKU_API_KEY              inference.heroku.com
hosted_vllm               chat,embed             -                           *
huggingface               chat*,rerank*          HUGGINGFACE_API_KEY,HF_TOKEN router.huggingface.co api-inference.huggingface.co
                                                    +do_sample +truncate +typical_p
hyperbolic                chat                   HYPERBOLIC_API_KEY          https://api.hyperbolic.xyz/v1
inception                 chat                   INCEPTION_API_KEY           https://api.inceptionlabs.ai/v1
infinity                  embed,rerank*          -
jina_ai                   embed,rerank           JINA_AI_API_KEY,JINA_API_KEY https://api.jina.ai/v1
lambda_ai                 chat                   LAMBDA_API_KEY              https://api.lambda.ai/v1
langgraph                 chat*                  -
lemonade                  chat                   -
libertai                  chat                   LIBERTAI_API_KEY            https://api.libertai.io/v1
litellm_proxy             chat,embed             -                           *
llamafile                 chat,embed             -                           *
lm_studio                 chat,embed             -                           *
maritalk                  chat*                  MARITALK_API_KEY            chat.maritaca.ai
meta                      chat                   META_API_KEY                https://api.meta.ai/v1
meta_llama                chat                   LLAMA_API_KEY               https://api.llama.com/compat/v1
minimax                   chat                   MINIMAX_API_KEY             https://api.minimax.io/v1 api.minimaxi.com
mistral                   chat,embed             MISTRAL_API_KEY             https://api.mistral.ai/v1 seed>random_seed
modelscope                chat,embed             MODELSCOPE_API_KEY          https://api-inference.modelscope.cn/v1
moonshot                  chat                   MOONSHOT_API_KEY            https://api.moonshot.ai/v1 api.moonshot.cn
morph                     chat                   MORPH_API_KEY               https://api.morphllm.com/v1
nano-gpt                  chat,embed             NANOGPT_API_KEY             https://nano-gpt.com/api/v1
nebius                    chat,embed             NEBIUS_API_KEY              https://api.studio.nebius.ai/v1 api.studio.nebius.com
nlp_cloud                 chat*                  NLP_CLOUD_API_KEY           api.nlpcloud.io
novita                    chat,embed             NOVITA_API_KEY              https://api.novita.ai/v3/openai
nscale                    chat,embed             NSCALE_API_KEY              https://inference.api.nscale.com/v1
nvidia_nim                chat,embed             NVIDIA_NIM_API_KEY          https://integrate.api.nvidia.com/v1
oci                       chat*,embed*           *                           oci.oraclecloud.com +oci_region +oci_compartment_id
                                                    +oci_serving_mode +oci_endpoint_id
ollama                    chat*,embed*           -                           +format +keep_alive +mirostat +mirostat_eta
                                                    +mirostat_tau +num_ctx +num_gpu +num_thread +repeat_last_n +repeat_penalty
                                                    +tfs_z +think
ollama_chat               chat*                  -                           +format +keep_alive +mirostat +mirostat_eta
                                                    +mirostat_tau +num_ctx +num_gpu +num_thread +repeat_last_n +repeat_penalty
                                                    +tfs_z +think
oobabooga                 chat*,embed*           -
openai                    chat,embed,batch       OPENAI_API_KEY              https://api.openai.com/v1
                                                    bare=(ft:)?(gpt-|chatgpt-|o[134](-|$))
openai_like               chat,embed             -                           *
openrouter                chat,embed             OPENROUTER_API_KEY,OR_API_KEY https://openrouter.ai/api/v1
ovhcloud                  chat,embed             OVHCLOUD_API_KEY            https://oai.endpoints.kepler.ai.cloud.ovh.net/v1
                                                    endpoints.kepler.ai.cloud.ovh.net
parasail                  chat,embed             PARASAIL_API_KEY            https://api.parasail.io/v1
perplexity                chat,embed*            PERPLEXITYAI_API_KEY,PERPLEXITY_API_KEY https://api.perplexity.ai
petals                    chat*                  -
pinstripes                chat                   PINSTRIPES_API_KEY          https://pinstripes.io/v1
poe                       chat                   POE_API_KEY                 https://api.poe.com/v1
predibase                 chat*                  PREDIBASE_API_KEY           serving.app.predibase.com
prism                     chat                   PRISM_API_KEY               https://api.prisminference.com/v1
publicai                  chat                   PUBLICAI_API_KEY            https://api.publicai.co/v1
qwen_ai_platform          chat,embed,rerank*     QWEN_AI_PLATFORM_API_KEY,DASHSCOPE_API_KEY
                                                    https://dashscope.aliyuncs.com/compatible-mode/v1
qwencloud                 chat,embed,rerank*     QWENCLOUD_API_KEY,DASHSCOPE_API_KEY
                                                    https://dashscope-intl.aliyuncs.com/compatible-mode/v1
ragflow                   chat                   -
reka                      chat                   REKA_API_KEY                https://api.reka.ai/v1
replicate                 chat*                  REPLICATE_API_KEY,REPLICATE_API_TOKEN api.replicate.com
sagemaker                 chat*                  *                           runtime.sagemaker.*.amazonaws.com +aws_region_name
                                                    +model_id
sagemaker_chat            chat*                  *                           runtime.sagemaker.*.amazonaws.com +aws_region_name
                                                    +model_id
sagemaker_nova            chat*                  *                           runtime.sagemaker.*.amazonaws.com +aws_region_name
                                                    +model_id
sail                      chat                   SAIL_API_KEY                https://api.sailresearch.com/v1
sambanova                 chat,embed             SAMBANOVA_API_KEY           https://api.sambanova.ai/v1
sap                       chat*,embed*           *                           ml.hana.ondemand.com
                                                    authentication.*.hana.ondemand.com
scaleway                  chat,embed,rerank      SCW_SECRET_KEY              https://api.scaleway.ai/v1
scx-ai                    chat                   SCX_API_KEY                 https://api.scx.ai/v1
snowflake                 chat*,embed*           SNOWFLAKE_JWT               snowflakecomputing.com
synthetic                 chat                   SYNTHETIC_API_KEY           https://api.synthetic.new/openai/v1
tencent                   chat                   TENCENT_API_KEY             https://tokenhub-intl.tencentcloudmaas.com/v1
tensormesh                chat                   TENSORMESH_INFERENCE_API_KEY https://serverless.tensormesh.ai/v1
text-completion-codestral chat*                  CODESTRAL_API_KEY           codestral.mistral.ai
text-completion-inception chat*                  INCEPTION_API_KEY           api.inceptionlabs.ai
text-completion-openai    chat*                  OPENAI_API_KEY              api.openai.com
together_ai               chat,embed,rerank      TOGETHERAI_API_KEY,TOGETHER_API_KEY https://api.together.ai/v1 api.together.xyz
triton                    chat*,embed*           -
v0                        chat                   V0_API_KEY                  api.v0.dev
vercel_ai_gateway         chat,embed             VERCEL_AI_GATEWAY_API_KEY   https://ai-gateway.vercel.sh/v1
vertex_ai                 chat*,embed*,rerank*   *                           aiplatform.googleapis.com *-aiplatform.googleapis.com
                                                    discoveryengine.googleapis.com +vertex_project +vertex_location
                                                    +safety_settings +labels +task_type
vertex_ai_beta            chat*                  *                           aiplatform.googleapis.com *-aiplatform.googleapis.com
                                                    prices=vertex_ai +vertex_project +vertex_location +safety_settings +labels
vllm                      chat                   -                           *
volcengine                chat,embed             VOLCENGINE_API_KEY,ARK_API_KEY https://ark.cn-beijing.volces.com/api/v3
voyage                    embed,rerank           VOYAGE_API_KEY,VOYAGE_AI_API_KEY https://api.voyageai.com/v1
                                                    top_n>top_k results>data
wandb                     chat                   WANDB_API_KEY               https://api.inference.wandb.ai/v1
watsonx                   chat*,embed*,rerank*   *                           ml.cloud.ibm.com iam.cloud.ibm.com +project_id
                                                    +space_id
watsonx_text              chat*                  *                           ml.cloud.ibm.com iam.cloud.ibm.com prices=watsonx
                                                    +project_id +space_id
xai                       chat                   XAI_API_KEY                 https://api.x.ai/v1
xiaomi_mimo               chat                   XIAOMI_MIMO_API_KEY         https://api.xiaomimimo.com/v1
xinference                chat,embed             -
zai                       chat,embed             ZAI_API_KEY                 https://api.z.ai/api/paas/v4
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
"""Fields that `extra` may contain for every provider. They are only sent in the body of the request."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider's row in the table."""

    services: frozenset[str]
    translated: frozenset[str]
    """The services with their own protocol or login, which litellm implements."""
    variables: tuple[str, ...]
    login: bool
    """Whether litellm can log in without a key, with a cloud's credentials."""
    token: bool
    """Whether the provider accepts a token instead of a key."""
    base: str
    """The base URL for direct requests; empty if unknown."""
    domains: tuple[str, ...]
    anywhere: bool
    """Whether its key is for the user's own endpoint, at any address."""
    bare: str
    """A regular expression for the provider's model names without a prefix; empty if there are none."""
    prices: str
    """The prefix of its models in litellm's price map; empty if the map uses the provider's name."""
    models: str
    """The prefix of models' names in the provider's API, such as `accounts/fireworks/models/`. It is added to names without a
    slash."""
    renamed: Mapping[str, str]
    """Field of a request or of a reranking -> its name at this provider."""
    extra: frozenset[str]
    """Fields that `extra` may contain, except for direct requests to a user's own endpoint."""

    def holds(self, host: str) -> bool:
        """Return whether the host is one of the domains or a subdomain of one."""
        patterns = (re.escape(domain).replace(r"\*", "[a-z0-9-]+") for domain in self.domains)
        return any(re.fullmatch(rf"(.+\.)?{pattern}", host) for pattern in patterns)


def _read(line: str) -> tuple[str, Provider]:
    name, services, variables, *rest = line.split()
    names, login = variables.split(","), "*" in variables
    base = next((word for word in rest if word.startswith("https://")), "")
    hosts = [urlsplit(base).hostname or "", *(word for word in rest if re.fullmatch(r"[\w*-]+(\.[\w*-]+)+", word))]
    noted = dict(word.split("=", 1) for word in rest if re.match(r"\w+=", word))
    return name, Provider(
        services=frozenset(services.replace("*", "").split(",")),
        translated=frozenset(service[:-1] for service in services.split(",") if service.endswith("*")),
        variables=tuple(name for name in names if name not in "*+-"),
        login=login,
        token="+" in names,
        base=base,
        domains=tuple(filter(None, hosts)),
        anywhere="*" in rest,
        bare=noted.get("bare", ""),
        prices=noted.get("prices", ""),
        models=noted.get("models", ""),
        renamed=dict(word.split(">") for word in rest if re.fullmatch(r"\w+>\w+", word)),
        # With a cloud's login, litellm may use a field of the body as a parameter of the login.
        extra=SAMPLING | {word[1:] for word in rest if word[0] == "+"} | (frozenset() if login else {"extra_body"}),
    )


PROVIDERS = dict(_read(line) for line in re.split(r"\n(?! )", _TABLE.strip()))
"""Prefix of models' names -> the provider."""

SECRET_VARIABLES = frozenset(
    {
        *(variable for provider in PROVIDERS.values() for variable in provider.variables),
        # litellm also reads these variables for most providers that have none in the table.
        *(f"{name.upper().replace('-', '_')}_API_KEY" for name in PROVIDERS),
        # Variables for logins and other keys that litellm or an SDK reads. Accounts, regions and addresses are not secret.
        *("AICORE_CLIENT_SECRET", "AICORE_SERVICE_KEY", "AIMLAPI_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_AWS_API_KEY"),
        *("ANTHROPIC_IDENTITY_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
        *("AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN", "AZURE_AD_TOKEN", "AZURE_CERTIFICATE_PASSWORD", "AZURE_CLIENT_SECRET"),
        *("AZURE_PASSWORD", "DATABRICKS_CLIENT_SECRET", "DATABRICKS_TOKEN", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
        *("GIGACHAT_ACCESS_TOKEN", "GIGACHAT_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS", "HUGGING_FACE_HUB_TOKEN"),
        *("JINA_AI_TOKEN", "MISTRAL_AZURE_API_KEY", "OCI_KEY", "OPENAI_ADMIN_KEY", "TOGETHER_AI_TOKEN", "VERCEL_OIDC_TOKEN"),
        *("VERTEXAI_CREDENTIALS", "VERTEX_CREDENTIALS", "VOYAGE_AI_TOKEN", "WATSONX_APIKEY", "WATSONX_TOKEN"),
        *("WATSONX_ZENAPIKEY", "WX_API_KEY"),
    }
)
"""All variables with secret values: those in the table, and those that litellm uses for logins. `keys.Secrets` hides their
values."""

WITH_DOMAINS = {name: provider for name, provider in PROVIDERS.items() if provider.domains}
"""The providers with their own domains."""

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})

# Matches URLs that all parsers read in the same way: no user, no escapes, no backslash, no white space, ASCII only.
_PLAIN = re.compile(r"(https?)://(?:([a-z0-9.-]+)|\[([0-9a-f:.]+)\])(?::[0-9]{1,5})?(?:/[!-\[\]-~]*)?", re.IGNORECASE | re.ASCII)

Place = Literal["own", "here", "http", "elsewhere"]
"""own: the provider's own domain. here: this machine. http: some provider's domain, but without TLS. elsewhere: any other."""


@functools.lru_cache
def place_of(provider: str, url: str | None) -> Place:
    """Return the kind of place at the URL, relative to the provider. Without a URL, litellm uses the provider's own domain."""
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
    """Return whether the URL is in the domains of any provider."""
    _, host = _parts(url)
    return any(known.holds(host) for known in WITH_DOMAINS.values())


def _parts(url: str) -> tuple[str, str]:
    """Return scheme and host in lower case; both are empty if parsers might disagree about the URL."""
    match = _PLAIN.fullmatch(url)
    return (match[1].lower(), (match[2] or match[3]).lower()) if match else ("", "")


@functools.lru_cache
def origin_of(provider: str, url: str | None) -> str:
    """Return the endpoint of a model: scheme, host and port of the URL or, without a URL, of the provider's domain.

    If there is no URL, and the provider has several domains or no known one, return the provider's name.
    """
    if not url:
        domains = WITH_DOMAINS[provider].domains if provider in WITH_DOMAINS else ()
        one_place = len(domains) == 1 and "*" not in domains[0]
        return f"https://{domains[0]}:443" if one_place else provider
    return routes.origin_of(urlsplit(url))


def own_variables(provider: str) -> tuple[str, ...]:
    """Return the variables that may have the provider's key."""
    known = WITH_DOMAINS.get(provider)
    return known.variables if known is not None else (f"{provider.upper().replace('-', '_')}_API_KEY",)


def needed_variables(provider: str) -> tuple[str, ...]:
    """Return the variables of which one must have a key (or token) for requests to the provider. Empty if none is needed or
    known."""
    known = WITH_DOMAINS.get(provider)
    if known is None or known.login:
        return ()
    return (*known.variables, *(("ANTHROPIC_AUTH_TOKEN",) if known.token else ()))


LOCAL_PREFIXES = ("offline/", "replay/", "answers/", "transformers/")
"""Prefixes of models that run in the worker, and so have no key, price or limits."""

_SERVICE = re.compile(r"/(chat/completions|completions|embeddings|rerank|responses|messages)/*$", re.IGNORECASE)
Transport = Literal["direct", "litellm", "local"]
"""How a model is called. direct: with our client for OpenAI's protocol. litellm: through that library. local: inside the
worker."""


def is_local(model: str) -> bool:
    """Return whether the model runs in the worker and needs no key."""
    return model.startswith(LOCAL_PREFIXES)


def is_service(model: str) -> bool:
    """Return whether the name begins with a provider's prefix. Other embedding and reranking models run in this process."""
    prefix, slash, _ = model.partition("/")
    return bool(slash) and prefix in PROVIDERS


@functools.lru_cache
def lacking(model: str, task: Task, api_base: str | None) -> str:
    """Return why the provider cannot do this task, in one line; empty if it can, or if the request goes to the user's own
    endpoint."""
    known = PROVIDERS.get(provider_of(model))
    if known is None or task in known.services or place_of(provider_of(model), api_base) != "own":
        return ""
    what = {"chat": "chat", "embed": "embeddings", "rerank": "reranking", "search": "search"}[task]
    return f"{provider_of(model)} has no {what} service; name a provider that has one, or api_base: URL of such an endpoint"


def address_of(model: str, api_base: str | None) -> str:
    """Return the base URL for direct requests: the `api_base`, else the URL in the provider's row; empty without either."""
    known = PROVIDERS.get(provider_of(model))
    return api_base or (known.base if known else "")


def service_flaw(api_base: str, task: Task) -> str:
    """Return one line that says why direct requests to an `api_base` are impossible; empty if they are possible.

    The path of the service is added to the `api_base`, so the `api_base` must not already end with such a path. There are two
    exceptions: a search is sent to the `api_base` itself, and for reranking it may end with `/v1/rerank` or `/v2/rerank`.
    """
    service = _SERVICE.search(api_base)
    if service is None or task == "search" or task == "rerank" and re.search(r"/v[12]/rerank$", api_base):
        return ""
    return f"api_base: it ends with {service[0]}, and the path of the service is added to it; write {api_base[: service.start()]}"


@functools.lru_cache
def known_extra(model: str, transport: Transport, api_base: str | None) -> frozenset[str] | None:
    """Return the fields that `extra` may contain for a model at its provider or through litellm; None for a user's endpoint,
    which may accept any field."""
    if transport == "local" or transport == "direct" and api_base:
        return None
    known = PROVIDERS.get(provider_of(model))
    return SAMPLING if known is None else known.extra


# The result is cached, since every call needs it and a run has few models.
@functools.lru_cache
def provider_of(model: str) -> str:
    """Return the model's provider: the part before the first slash, else found by the whole name; empty if unknown."""
    root, slash, _ = model.partition("/")
    if slash:
        return root
    return next((name for name, known in PROVIDERS.items() if known.bare and re.match(known.bare, model)), "")


def wire_name(model: str) -> str:
    """Return the model's name without the provider's prefix, for an endpoint with OpenAI's protocol."""
    if not is_service(model):
        return model
    prefix, _, name = model.partition("/")
    return name if "/" in name else f"{PROVIDERS[prefix].models}{name}"
