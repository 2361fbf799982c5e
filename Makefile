# parley needs Go and make, nothing else. `make help` lists the targets.

GO      ?= go
BIN     := bin
DEMO    := demo
# The race detector needs a C compiler; without one the tests run all the same, and say so.
RACE    := $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo -race)
LDFLAGS := -s -w

.DEFAULT_GOAL := build
.PHONY: build help demo test lint fmt bench bench-go bench-generate bench-client check-speed bench-analyze simulate soak integration integration-servers install clean

help:            ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build:           ## bin/parley and bin/llmsim, static binaries
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/parley ./cmd/llmsim

demo: build      ## generate, replay against the simulated server, analyze; leaves demo/report.html
	@BIN=$(BIN) DEMO=$(DEMO) sh cmd/parley/testdata/demo.sh

test:            ## every test that needs nothing but Go
	@$(if $(RACE),,echo "no C compiler: testing without the race detector")
	$(GO) test $(RACE) ./...

lint:            ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags soak,integration ./cmd/parley
	$(GO) tool staticcheck ./...

fmt:             ## format all code
	gofmt -w $$(git ls-files '*.go')

install:         ## install parley and llmsim with go install
	CGO_ENABLED=0 $(GO) install -trimpath -ldflags '$(LDFLAGS)' ./cmd/parley ./cmd/llmsim

clean:           ## remove what make made
	rm -rf $(BIN) $(DEMO)

integration:     ## replay against a real inference server; LLAMA=DIR has llama-server and tiny.gguf
	@test -n "$(LLAMA)" || { echo "usage: make integration LLAMA=DIR (a folder with llama-server and tiny.gguf)"; exit 2; }
	LLAMA=$(abspath $(LLAMA)) $(GO) test -tags integration -count=1 -timeout 15m -run TestRealServer -v ./cmd/parley

integration-servers: ## drive real Dynamo, LiteLLM, Ollama and vLLM, installed into CACHE (~/.cache/parley); needs integration's tiny.gguf
	bash .ci/servers.sh $(or $(CACHE),$(HOME)/.cache/parley)

simulate:        ## coverage, alarms and power of the statistics against a queue model, about half an hour; SIMULATE=short is what CI runs
	PARLEY_SIMULATE=$(or $(SIMULATE),full) $(GO) test -count=1 -timeout 3h -run '^TestSimulated(Coverage|Windows|Comparisons|Repeats)$$' ./analyze $(if $(SIMULATE),,-update)

soak:            ## kills, faults and endurance; SOAK=short is what CI runs, otherwise about an hour
	SOAK=$(or $(SOAK),long) $(GO) test -tags soak -count=1 -timeout 2h -run TestSoak -v ./cmd/parley

bench: build bench-go bench-generate bench-client  ## all benchmarks; about half an hour on a quiet machine

bench-go:        ## Go benchmarks: time and allocations per operation
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-generate:  ## tokenizers against tiktoken and tokenizers, datasets against bare tokenizing; needs node, npm and python3; BENCH=bench-short is what CI runs
	sh generate/tokenizer/reference/run.sh $(or $(CACHE),$(HOME)/.cache/parley/tokenizers) $(or $(BENCH),bench)

bench-client: build  ## what the client adds to true times, from 1 to 10,000 streams and over TLS; uses wrk if it is there
	$(GO) run ./cmd/internal/clientbench
	$(GO) run ./cmd/internal/clientbench -streams 1000 -no-wrk -over plain,tls,net-http,http2

check-speed: build  ## limits of the scheduler and of the client, each measured again before it fails; CI runs it
	$(GO) test -run '^$$' -bench 'Scheduler|JoinLateness' ./replay/load ./replay
	$(GO) run ./cmd/internal/clientbench -check -streams 1000 -hold 8s -over plain,tls -parley $(BIN)/parley -llmsim $(BIN)/llmsim

bench-analyze:   ## the cost of an analysis beside DuckDB's and polars'; PYTHON has them (PARLEY_PYTHON, else python3)
	@mkdir -p $(BIN) && $(GO) build -trimpath -o $(BIN)/synthrun ./analyze/internal/synthrun
	$(or $(PYTHON),$(PARLEY_PYTHON),python3) analyze/testdata/bench_duckdb.py $(BIN)/synthrun --large 10000000 $(BENCH_ANALYZE)
