# make            this help
# make demo       run the main job on real input, with the embedded store
# make check      everything that CI runs; installs what it lacks
SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
GO ?= go
# What the long tests are given here; the plain `go test ./...` takes less.
HOURS ?= 1000
KILLS ?= 1000
INPUTS ?= 5000x
TRIES ?= 10000
RACES ?= 1000
OBJECTS ?= 10000
WORLDS ?= 10000
FLOWS ?= 200
SWAPS ?= 300000

.PHONY: help build demo check fast long race fuzz generate bench tools

help:
	@sed -n 's/^# \{0,1\}\(make.*\)/\1/p' Makefile
	@echo "make build      bin/stagepost"
	@echo "make generate   write the generated documents anew"
	@echo "make bench      measure (see bench/README.md)"

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/stagepost ./cmd/stagepost

demo: build
	bin/stagepost demo

tools:
	@scripts/tools

# Fast things first: what fails should fail soon.
check: tools fast race long fuzz
	@echo "everything passed"

fast: build
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt the files above"; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	$(GO) test . ./docs ./lifecycle/... ./job/...
	$(GO) test ./...
	$(GO) run ./examples/embed
	rm -rf bin/demo-data && bin/stagepost demo --data bin/demo-data
	@echo "the views, read with the sqlite3 tool:"
	sqlite3 bin/demo-data/stagepost.db "SELECT count(*) FROM history WHERE at LIKE '20__-__-__T%'" | grep -v '^0$$'
	sqlite3 bin/demo-data/stagepost.db "SELECT count(*) FROM jobs WHERE created IS NULL OR changed IS NULL" | grep '^0$$'

race:
	$(GO) test -race ./engine/... ./flow/... ./store/... ./server/... ./client/... ./examples/... ./app/compute ./app/compute/agent ./app/compute/detect ./app/compute/wire/... ./edge/tunnel ./edge/tus

long:
	$(GO) test ./app -run OnDisk -everywhere -v -timeout 20m | grep -E '^(ok|FAIL|---| +[a-z_]+.go)'
	$(GO) test ./engine -run 'Simulation|Why' -hours $(HOURS) -rapid.checks 20000 -v -timeout 20m | grep -v '^=== '
	$(GO) test ./cmd/stagepost -run Big -big-files 10000 -big-bytes 2147483648 -v -timeout 20m | grep -v '^=== '
	$(GO) test ./cmd/stagepost -run Kill -kills $(KILLS) -v -timeout 20m | grep -v '^=== '
	$(GO) test ./engine -run 'SlipsThrough|HoldRace' -tries $(TRIES) -v | grep -v '^=== '
	$(GO) test ./app/ingest -run TestTwoJobsRace -tries $(RACES) -v -timeout 30m | grep -v '^=== '
	$(GO) test ./app/ingest -run TestPlanManySmallObjects -jobs $(OBJECTS) -v -timeout 30m | grep -v '^=== '
	$(GO) test ./app/ingest -run 'TestReportIsSentOnce|TestNobodyDisturbs' -v -timeout 10m | grep -E '^(ok|FAIL|---| +[a-z_]+.go)'
	$(GO) test ./flow -run Worlds -worlds $(WORLDS) -crashes 0 -v -timeout 20m | grep -v '^=== '
	$(GO) test ./flow/durable -run KilledFlows -flows $(FLOWS) -v -timeout 10m | grep -v '^=== '
	$(GO) test ./app/ingest/access -run Memory -vast -v -timeout 10m | grep -v '^=== '
	$(GO) test ./edge/collect -run 'TestRace|Zip64Sizes' -vast -swaps $(SWAPS) -v -timeout 10m | grep -v '^=== '
	$(GO) test ./app/compute/agent -run Big -big 2147483648 -v -timeout 10m | grep -v '^=== '
	$(GO) test ./app/compute -run DeathAtEveryChange -crash-sqlite -v -timeout 10m | grep -E '^(ok|FAIL|---| +[a-z_]+.go)'
	$(GO) test ./app/compute/slurm -run Cluster -slurm -v -timeout 10m | grep -v '^=== '

# So many inputs for each fuzz target: a count ends the same way on slow machines, a time does not.
fuzz:
	@scripts/fuzz $(INPUTS)

generate:
	$(GO) test ./docs -update
	$(GO) generate ./cmd/stagepost

bench:
	$(GO) test ./bench -run xxx -bench . -benchtime 20000x -timeout 60m
