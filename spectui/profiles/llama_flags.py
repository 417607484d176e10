"""Flags of llama-server and llama-speculative-simple that spectui accepts without using them.

Generated from the programs' `--help` by `python -m tests.generators.llama_flags`. Do not edit.
"""

VERSION = "0.3.36"
"""The llama-cpp-python that carries these programs' source."""

SWITCHES = """
    -ag --agent --backend-sampling -bs --cache-idle-slots --cache-prompt -cb --check-tensors --cont-batching
    --context-shift --cors-credentials -dio --direct-io --embedding --embeddings --ignore-eos --jinja --kv-offload
    --kv-unified -kvo -kvu --log-disable --log-jsonl --log-prefix --log-timestamps --log-verbose
    --lora-init-without-apply --metrics --mlock --mmap --mmproj-auto --mmproj-offload --models-autoload -ndio -nkvo
    -no-ag --no-agent --no-cache-idle-slots --no-cache-prompt --no-cont-batching --no-context-shift
    --no-cors-credentials --no-direct-io --no-host --no-jinja --no-kv-offload --no-kv-unified -no-kvu --no-log-jsonl
    --no-log-prefix --no-log-timestamps --no-mmap --no-mmproj --no-mmproj-auto --no-mmproj-offload
    --no-models-autoload --no-op-offload --no-perf --no-prefill-assistant --no-reasoning-preserve
    --no-skip-chat-parsing --no-slots --no-spec-draft-backend-sampling --no-ui --no-ui-mcp-proxy --no-warmup
    --no-webui --no-webui-mcp-proxy -nocb --offline --op-offload --perf --prefill-assistant --props
    --reasoning-preserve --repack --rerank --reranking --reuse-port --skip-chat-parsing --slots --spec-default
    --spec-draft-backend-sampling --spm-infill --ui --ui-mcp-proxy -v --verbose --warmup --webui --webui-mcp-proxy
"""
"""Flags without a value."""

VALUES = """
    -C -Cb -Cbd -Cd -Cr -Crb -Crbd -Crd -a --adaptive-decay --adaptive-target --alias --api-key --api-key-file
    --api-prefix --cache-reuse --chat-template --chat-template-file --checkpoint-min-step -cms -co --color
    --control-vector --control-vector-scaled --cors-headers --cors-methods --cors-origins --cpu-mask --cpu-mask-batch
    --cpu-mask-batch-draft --cpu-mask-draft --cpu-range --cpu-range-batch --cpu-range-batch-draft --cpu-range-draft
    --cpu-strict --cpu-strict-batch --cpu-strict-batch-draft --cpu-strict-draft --ctx-checkpoints -ctxcp
    --defrag-thold --draft-p-split --dry-allowed-length --dry-base --dry-multiplier --dry-penalty-last-n
    --dry-sequence-breaker -dt --dynatemp-exp --dynatemp-range --embd-normalize --fit -fit --fit-ctx --fit-target
    -fitc -fitt --grammar --grammar-file --hf-token -hft --host --image-max-tokens --image-min-tokens -j -jf
    --json-schema --json-schema-file --keep --kv-unified-per-slot -l --lazy-mode -lcd -lcs -lm --load-mode
    --log-colors --log-file --log-prompts-dir --log-verbosity --logit-bias --lookup-cache-dynamic
    --lookup-cache-static --lora --lora-scaled -lv -lzm --mcp-servers-config --mcp-servers-json --media-path
    --mirostat --mirostat-ent --mirostat-lr -mm -mmdev --mmproj --mmproj-device --mmproj-url -mmu --models-dir
    --models-max --models-preset --mtmd-batch-max-tokens --n-cpu-ffn -ncffn -np --override-kv --parallel --path --poll
    --poll-batch --poll-batch-draft --poll-draft --pooling --port --prio --prio-batch --prio-batch-draft --prio-draft
    -rea --reasoning --reasoning-budget-message --reasoning-effort --reasoning-format --repeat-last-n --rope-freq-base
    --rope-freq-scale --rope-scale --rope-scaling --sampler-seq --samplers --sampling-seq --sleep-idle-seconds
    --slot-prompt-similarity --slot-save-path --spec-draft-cpu-mask --spec-draft-cpu-mask-batch --spec-draft-cpu-range
    --spec-draft-cpu-range-batch --spec-draft-cpu-strict --spec-draft-cpu-strict-batch --spec-draft-p-split
    --spec-draft-poll --spec-draft-poll-batch --spec-draft-prio --spec-draft-prio-batch --spec-draft-threads-batch
    --spec-ngram-map-k-min-hits --spec-ngram-map-k-size-m --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits
    --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-size-n --spec-ngram-min-hits --spec-ngram-mod-n-match
    --spec-ngram-mod-n-max --spec-ngram-mod-n-min --spec-ngram-simple-min-hits --spec-ngram-simple-size-m
    --spec-ngram-simple-size-n --spec-ngram-size-m --spec-ngram-size-n --spec-synth-len --spec-synth-rates --spec-type
    -sps --sse-ping-interval --ssl-cert-file --ssl-key-file --swa-checkpoints --tags -tb -tbd --threads-batch
    --threads-batch-draft --threads-http --timeout -to --tools --tools-runtime --top-n-sigma --top-nsigma --typical
    --typical-p --ui-config --ui-config-file --verbosity --video-ffmpeg-dir --video-fps --video-timestamp-interval
    --webui-config --webui-config-file --xtc-probability --xtc-threshold --yarn-attn-factor --yarn-beta-fast
    --yarn-beta-slow --yarn-ext-factor --yarn-orig-ctx
"""
"""Flags with one value."""

PAIRS = """
    --control-vector-layer-range
"""
"""Flags with two values."""

MODELS = """
    --docker-repo -dr --embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-14b-spec --fim-qwen-30b-default
    --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --gpt-oss-120b-default --gpt-oss-20b-default
    --hf-file -hff --model-url -mu --vision-gemma-12b-default --vision-gemma-4b-default
"""
"""Flags that choose a model in a way that spectui does not have: refused."""

TEXT = """
    --adaptive-decay --adaptive-target --chat-template --chat-template-file --context-shift --control-vector
    --control-vector-layer-range --control-vector-scaled --dry-allowed-length --dry-base --dry-multiplier
    --dry-penalty-last-n --dry-sequence-breaker --dynatemp-exp --dynatemp-range --embedding --embeddings --grammar
    --grammar-file --ignore-eos -j -jf --json-schema --json-schema-file -l --logit-bias --lora --lora-scaled
    --mirostat --mirostat-ent --mirostat-lr -mm --mmproj --mmproj-url -mmu --no-jinja --no-prefill-assistant
    --no-reasoning-preserve --override-kv --pooling -rea --reasoning --reasoning-budget-message --reasoning-effort
    --reasoning-preserve --repeat-last-n --rerank --reranking --rope-freq-base --rope-freq-scale --rope-scale
    --rope-scaling --sampler-seq --samplers --sampling-seq --skip-chat-parsing --spm-infill --top-n-sigma --top-nsigma
    --typical --typical-p --xtc-probability --xtc-threshold --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow
    --yarn-ext-factor --yarn-orig-ctx
"""
"""Those of the first three groups that can change what llama.cpp writes."""

VARIABLES = """
    LLAMA_ARG_AGENT=--agent LLAMA_ARG_ALIAS=--alias LLAMA_ARG_API_KEY_FILE=--api-key-file
    LLAMA_ARG_API_PREFIX=--api-prefix LLAMA_ARG_BACKEND_SAMPLING=--backend-sampling LLAMA_ARG_BATCH=--batch-size
    LLAMA_ARG_CACHE_IDLE_SLOTS=--cache-idle-slots LLAMA_ARG_CACHE_PROMPT=--cache-prompt
    LLAMA_ARG_CACHE_RAM=--cache-ram LLAMA_ARG_CACHE_REUSE=--cache-reuse LLAMA_ARG_CACHE_TYPE_K=--cache-type-k
    LLAMA_ARG_CACHE_TYPE_V=--cache-type-v LLAMA_ARG_CHAT_TEMPLATE=--chat-template
    LLAMA_ARG_CHAT_TEMPLATE_FILE=--chat-template-file LLAMA_ARG_CHAT_TEMPLATE_KWARGS=--chat-template-kwargs
    LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT=--checkpoint-min-step LLAMA_ARG_CONTEXT_SHIFT=--context-shift
    LLAMA_ARG_CONT_BATCHING=--cont-batching LLAMA_ARG_CORS_CREDENTIALS=--cors-credentials
    LLAMA_ARG_CORS_HEADERS=--cors-headers LLAMA_ARG_CORS_METHODS=--cors-methods LLAMA_ARG_CORS_ORIGINS=--cors-origins
    LLAMA_ARG_CPU_MOE=--cpu-moe LLAMA_ARG_CTX_CHECKPOINTS=--ctx-checkpoints LLAMA_ARG_CTX_SIZE=--ctx-size
    LLAMA_ARG_DEFRAG_THOLD=--defrag-thold LLAMA_ARG_DEVICE=--device LLAMA_ARG_DOCKER_REPO=--docker-repo
    LLAMA_ARG_DRAFT_MAX=--draft LLAMA_ARG_DRAFT_MIN=--draft-min LLAMA_ARG_EMBEDDINGS=--embedding
    LLAMA_ARG_ENDPOINT_METRICS=--metrics LLAMA_ARG_ENDPOINT_PROPS=--props LLAMA_ARG_ENDPOINT_SLOTS=--slots
    LLAMA_ARG_FIT=--fit LLAMA_ARG_FIT_CTX=--fit-ctx LLAMA_ARG_FIT_TARGET=--fit-target
    LLAMA_ARG_FLASH_ATTN=--flash-attn LLAMA_ARG_FREQUENCY_PENALTY=--frequency-penalty LLAMA_ARG_HF_FILE=--hf-file
    LLAMA_ARG_HF_REPO=--hf-repo LLAMA_ARG_HOST=--host LLAMA_ARG_IMAGE_MAX_TOKENS=--image-max-tokens
    LLAMA_ARG_IMAGE_MIN_TOKENS=--image-min-tokens LLAMA_ARG_JINJA=--jinja LLAMA_ARG_KV_OFFLOAD=--kv-offload
    LLAMA_ARG_KV_UNIFIED=--kv-unified LLAMA_ARG_KV_UNIFIED_PER_SLOT=--kv-unified-per-slot
    LLAMA_ARG_LAZY_MODE=--lazy-mode LLAMA_ARG_LOAD_MODE=--load-mode LLAMA_ARG_LOG_COLORS=--log-colors
    LLAMA_ARG_LOG_FILE=--log-file LLAMA_ARG_LOG_JSONL=--log-jsonl LLAMA_ARG_LOG_PREFIX=--log-prefix
    LLAMA_ARG_LOG_TIMESTAMPS=--log-timestamps LLAMA_ARG_LOG_VERBOSITY=--verbosity LLAMA_ARG_MAIN_GPU=--main-gpu
    LLAMA_ARG_MCP_SERVERS_CONFIG=--mcp-servers-config LLAMA_ARG_MCP_SERVERS_JSON=--mcp-servers-json
    LLAMA_ARG_MIN_P=--min-p LLAMA_ARG_MMPROJ=--mmproj LLAMA_ARG_MMPROJ_AUTO=--mmproj-auto
    LLAMA_ARG_MMPROJ_OFFLOAD=--mmproj-offload LLAMA_ARG_MMPROJ_URL=--mmproj-url LLAMA_ARG_MODEL=--model
    LLAMA_ARG_MODELS_AUTOLOAD=--models-autoload LLAMA_ARG_MODELS_DIR=--models-dir LLAMA_ARG_MODELS_MAX=--models-max
    LLAMA_ARG_MODELS_PRESET=--models-preset LLAMA_ARG_MODEL_URL=--model-url
    LLAMA_ARG_MTMD_BATCH_MAX_TOKENS=--mtmd-batch-max-tokens LLAMA_ARG_NO_HOST=--no-host LLAMA_ARG_NUMA=--numa
    LLAMA_ARG_N_CPU_FFN=--n-cpu-ffn LLAMA_ARG_N_CPU_MOE=--n-cpu-moe LLAMA_ARG_N_GPU_LAYERS=--gpu-layers
    LLAMA_ARG_N_GPU_LAYERS_DRAFT=--spec-draft-ngl LLAMA_ARG_N_PARALLEL=--parallel LLAMA_ARG_N_PREDICT=--predict
    LLAMA_ARG_OFFLINE=--offline LLAMA_ARG_OVERRIDE_TENSOR=--override-tensor LLAMA_ARG_PERF=--perf
    LLAMA_ARG_POOLING=--pooling LLAMA_ARG_PORT=--port LLAMA_ARG_PREFILL_ASSISTANT=--prefill-assistant
    LLAMA_ARG_PRESENCE_PENALTY=--presence-penalty LLAMA_ARG_REASONING=--reasoning
    LLAMA_ARG_REASONING_EFFORT=--reasoning-effort LLAMA_ARG_REASONING_PRESERVE=--reasoning-preserve
    LLAMA_ARG_REPACK=--repack LLAMA_ARG_REPEAT_PENALTY=--repeat-penalty LLAMA_ARG_RERANKING=--rerank
    LLAMA_ARG_REUSE_PORT=--reuse-port LLAMA_ARG_ROPE_FREQ_BASE=--rope-freq-base
    LLAMA_ARG_ROPE_FREQ_SCALE=--rope-freq-scale LLAMA_ARG_ROPE_SCALE=--rope-scale
    LLAMA_ARG_ROPE_SCALING_TYPE=--rope-scaling LLAMA_ARG_RPC=--rpc LLAMA_ARG_SKIP_CHAT_PARSING=--skip-chat-parsing
    LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING=--spec-draft-backend-sampling
    LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K=--spec-draft-type-k LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V=--spec-draft-type-v
    LLAMA_ARG_SPEC_DRAFT_CPU_MOE=--spec-draft-cpu-moe LLAMA_ARG_SPEC_DRAFT_HF_REPO=--spec-draft-hf
    LLAMA_ARG_SPEC_DRAFT_MODEL=--spec-draft-model LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE=--spec-draft-n-cpu-moe
    LLAMA_ARG_SPEC_DRAFT_N_MAX=--spec-draft-n-max LLAMA_ARG_SPEC_DRAFT_N_MIN=--spec-draft-n-min
    LLAMA_ARG_SPEC_DRAFT_P_MIN=--spec-draft-p-min LLAMA_ARG_SPEC_DRAFT_P_SPLIT=--spec-draft-p-split
    LLAMA_ARG_SPEC_SYNTH_LEN=--spec-synth-len LLAMA_ARG_SPEC_SYNTH_RATES=--spec-synth-rates
    LLAMA_ARG_SPEC_TYPE=--spec-type LLAMA_ARG_SPLIT_MODE=--split-mode LLAMA_ARG_SSE_PING_INTERVAL=--sse-ping-interval
    LLAMA_ARG_SSL_CERT_FILE=--ssl-cert-file LLAMA_ARG_SSL_KEY_FILE=--ssl-key-file LLAMA_ARG_STATIC_PATH=--path
    LLAMA_ARG_SWA_FULL=--swa-full LLAMA_ARG_TAGS=--tags LLAMA_ARG_TEMPERATURE=--temp
    LLAMA_ARG_TENSOR_SPLIT=--tensor-split LLAMA_ARG_THINK=--reasoning-format LLAMA_ARG_THINK_BUDGET=--reasoning-budget
    LLAMA_ARG_THINK_BUDGET_MESSAGE=--reasoning-budget-message LLAMA_ARG_THREADS=--threads
    LLAMA_ARG_THREADS_HTTP=--threads-http LLAMA_ARG_TIMEOUT=--timeout LLAMA_ARG_TOOLS=--tools
    LLAMA_ARG_TOOLS_RUNTIME=--tools-runtime LLAMA_ARG_TOP_K=--top-k LLAMA_ARG_TOP_P=--top-p
    LLAMA_ARG_UBATCH=--ubatch-size LLAMA_ARG_UI=--ui LLAMA_ARG_UI_CONFIG=--ui-config
    LLAMA_ARG_UI_CONFIG_FILE=--ui-config-file LLAMA_ARG_UI_MCP_PROXY=--ui-mcp-proxy
    LLAMA_ARG_VIDEO_FFMPEG_DIR=--video-ffmpeg-dir LLAMA_ARG_VIDEO_FPS=--video-fps
    LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL=--video-timestamp-interval LLAMA_ARG_YARN_ATTN_FACTOR=--yarn-attn-factor
    LLAMA_ARG_YARN_BETA_FAST=--yarn-beta-fast LLAMA_ARG_YARN_BETA_SLOW=--yarn-beta-slow
    LLAMA_ARG_YARN_EXT_FACTOR=--yarn-ext-factor LLAMA_ARG_YARN_ORIG_CTX=--yarn-orig-ctx
"""
"""Environment variables, each with the flag that it stands for."""
