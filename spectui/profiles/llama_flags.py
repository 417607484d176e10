"""Flags of llama-server and llama-speculative-simple that spectui accepts without using them.

Generated from the programs' `--help` by `python -m tests.llama_flags`. Do not edit.
"""

VERSION = "0.3.36"
"""The llama-cpp-python that carries these programs' source."""

SWITCHES = """
    -ag --agent --backend-sampling -bs --cache-idle-slots --cache-prompt -cb --check-tensors -cmoe -cmoed
    --cont-batching --context-shift --cors-credentials --cpu-moe --cpu-moe-draft -dio --direct-io -e --embedding
    --embeddings --escape --ignore-eos --jinja --kv-offload --kv-unified -kvo -kvu --log-disable --log-jsonl
    --log-prefix --log-timestamps --log-verbose --lora-init-without-apply --metrics --mlock --mmap --mmproj-auto
    --mmproj-offload --models-autoload -ndio -nkvo -no-ag --no-agent --no-cache-idle-slots --no-cache-prompt
    --no-cont-batching --no-context-shift --no-cors-credentials --no-direct-io --no-escape --no-host --no-jinja
    --no-kv-offload --no-kv-unified -no-kvu --no-log-jsonl --no-log-prefix --no-log-timestamps --no-mmap --no-mmproj
    --no-mmproj-auto --no-mmproj-offload --no-models-autoload --no-op-offload --no-perf --no-prefill-assistant
    --no-reasoning-preserve --no-skip-chat-parsing --no-slots --no-spec-draft-backend-sampling --no-ui
    --no-ui-mcp-proxy --no-warmup --no-webui --no-webui-mcp-proxy -nocb --offline --op-offload --perf
    --prefill-assistant --props --reasoning-preserve --repack --rerank --reranking --reuse-port --skip-chat-parsing
    --slots -sp --spec-default --spec-draft-backend-sampling --spec-draft-cpu-moe --special --spm-infill --swa-full
    --ui --ui-mcp-proxy -v --verbose --warmup --webui --webui-mcp-proxy
"""
"""Flags without a value."""

VALUES = """
    -C -Cb -Cbd -Cd -Cr -Crb -Crbd -Crd -a --adaptive-decay --adaptive-target --alias --api-key --api-key-file
    --api-prefix --cache-ram --cache-reuse --chat-template --chat-template-file --chat-template-kwargs
    --checkpoint-min-step -cms -co --color --control-vector --control-vector-scaled --cors-headers --cors-methods
    --cors-origins --cpu-mask --cpu-mask-batch --cpu-mask-batch-draft --cpu-mask-draft --cpu-range --cpu-range-batch
    --cpu-range-batch-draft --cpu-range-draft --cpu-strict --cpu-strict-batch --cpu-strict-batch-draft
    --cpu-strict-draft -cram --ctx-checkpoints -ctxcp --defrag-thold --draft-p-split --dry-allowed-length --dry-base
    --dry-multiplier --dry-penalty-last-n --dry-sequence-breaker -dt --dynatemp-exp --dynatemp-range --embd-normalize
    --fit -fit --fit-ctx --fit-target -fitc -fitt --frequency-penalty --grammar --grammar-file --hf-token -hft --host
    --image-max-tokens --image-min-tokens -j -jf --json-schema --json-schema-file --keep --kv-unified-per-slot -l
    --lazy-mode -lcd -lcs -lm --load-mode --log-colors --log-file --log-prompts-dir --log-verbosity --logit-bias
    --lookup-cache-dynamic --lookup-cache-static --lora --lora-scaled -lv -lzm --mcp-servers-config --mcp-servers-json
    --media-path --mirostat --mirostat-ent --mirostat-lr -mm -mmdev --mmproj --mmproj-device --mmproj-url -mmu
    --models-dir --models-max --models-preset --mtmd-batch-max-tokens --n-cpu-ffn --n-cpu-moe --n-cpu-moe-draft -ncffn
    -ncmoe -ncmoed -np --numa -ot -otd --override-kv --override-tensor --override-tensor-draft --parallel --path
    --poll --poll-batch --poll-batch-draft --poll-draft --pooling --port --presence-penalty --prio --prio-batch
    --prio-batch-draft --prio-draft -r -rea --reasoning --reasoning-budget --reasoning-budget-message
    --reasoning-effort --reasoning-format --repeat-last-n --reverse-prompt --rope-freq-base --rope-freq-scale
    --rope-scale --rope-scaling --sampler-seq --samplers --sampling-seq --sleep-idle-seconds --slot-prompt-similarity
    --slot-save-path --spec-draft-cpu-mask --spec-draft-cpu-mask-batch --spec-draft-cpu-range
    --spec-draft-cpu-range-batch --spec-draft-cpu-strict --spec-draft-cpu-strict-batch --spec-draft-n-cpu-moe
    --spec-draft-ncmoe --spec-draft-override-tensor --spec-draft-p-split --spec-draft-poll --spec-draft-poll-batch
    --spec-draft-prio --spec-draft-prio-batch --spec-draft-threads-batch --spec-ngram-map-k-min-hits
    --spec-ngram-map-k-size-m --spec-ngram-map-k-size-n --spec-ngram-map-k4v-min-hits --spec-ngram-map-k4v-size-m
    --spec-ngram-map-k4v-size-n --spec-ngram-min-hits --spec-ngram-mod-n-match --spec-ngram-mod-n-max
    --spec-ngram-mod-n-min --spec-ngram-simple-min-hits --spec-ngram-simple-size-m --spec-ngram-simple-size-n
    --spec-ngram-size-m --spec-ngram-size-n --spec-synth-len --spec-synth-rates --spec-type -sps --sse-ping-interval
    --ssl-cert-file --ssl-key-file --swa-checkpoints --tags -tb -tbd --threads-batch --threads-batch-draft
    --threads-http --timeout -to --tools --tools-runtime --top-n-sigma --top-nsigma --typical --typical-p --ui-config
    --ui-config-file --verbosity --video-ffmpeg-dir --video-fps --video-timestamp-interval --webui-config
    --webui-config-file --xtc-probability --xtc-threshold --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow
    --yarn-ext-factor --yarn-orig-ctx
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
    --adaptive-decay --adaptive-target --chat-template --chat-template-file --chat-template-kwargs --context-shift
    --control-vector --control-vector-layer-range --control-vector-scaled --dry-allowed-length --dry-base
    --dry-multiplier --dry-penalty-last-n --dry-sequence-breaker --dynatemp-exp --dynatemp-range --embedding
    --embeddings --frequency-penalty --grammar --grammar-file --ignore-eos -j -jf --json-schema --json-schema-file -l
    --logit-bias --lora --lora-scaled --mirostat --mirostat-ent --mirostat-lr -mm --mmproj --mmproj-url -mmu
    --no-jinja --no-prefill-assistant --no-reasoning-preserve --override-kv --pooling --presence-penalty -rea
    --reasoning --reasoning-budget --reasoning-budget-message --reasoning-effort --reasoning-preserve --repeat-last-n
    --rerank --reranking --rope-freq-base --rope-freq-scale --rope-scale --rope-scaling --sampler-seq --samplers
    --sampling-seq --skip-chat-parsing --spm-infill --top-n-sigma --top-nsigma --typical --typical-p --xtc-probability
    --xtc-threshold --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow --yarn-ext-factor --yarn-orig-ctx
"""
"""Those of the first three groups that can change what llama.cpp writes."""
