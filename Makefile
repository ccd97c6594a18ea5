# make            this help
# make demo       run the main job on real input, with the embedded store
# make transcript follow README.md and docs/ingest.md on a terminal of 80 columns; the sessions go to transcript/
# make check      everything that CI runs; installs what it lacks
# make soak       make check, then the tests with long counts; run it before an issue is closed
SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
GO ?= go
INPUTS ?= 500x
LONG_INPUTS ?= 5000x

# The program, its tests and the linters are compiled with the same flags, those of a release, so that each package is
# compiled once. The race detector needs cgo.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath

# Packages with pages of their own, which have tests in a browser.
PAGES = ./web/access ./app/archive/http ./app/compute/http ./app/flowfile/http ./app/ingest/http

# The packages that share memory between goroutines: the engine, its stores, servers and workers. The longest is first.
RACE = ./store/sqlite/... ./engine/... ./store/mem ./store/internal/... ./worker ./client \
	./server ./server/hub ./server/session ./server/workers ./internal/... ./app/compute/agent ./edge/tunnel ./edge/tus

# Those that make soak adds, beside the stores of several servers.
RACE_LONG = ./store/crash/... ./store/storetest ./flow/... ./server/... ./client/... ./cli/... \
	./host/... ./examples/... ./app/ingest/cli ./app/ingest/http ./app/flowfile/http ./app/bulk/... ./app/compute ./app/compute/http \
	./app/compute/orchestrator/client ./app/compute/orchestrator/detect ./app/compute/orchestrator/wire/... ./edge/httpguard

# Lists the folders of packages, in the order of the arguments.
FOLDERS = $(GO) list -f '{{$$d := slice .Dir (len .Module.Dir)}}.{{or $$d "/"}}'

# Tests of one goroutine at a time, which take minutes with the race detector: the stage before runs them without it.
NO_RACE = PowerCut|TestCrashWithLog$$|TestCrash$$|TestConnectionLoss|TestLines|TestFlipped|TestCosts|TestLogOfNewDatabaseIsCut|TestDamagedLogIsRefused|TestFsck$$|TestSearch$$|TestVerify|TestEdited

# The race detector watches this program and not SQLite in Go, whose connections are used by one goroutine at a time:
# watched as well, it takes seven times the processor time.
WATCHED = -race -gcflags=modernc.org/...=-race=false

# The tests with long counts, the longest first: package, tests, flags. TestSoakList checks that each line names a test and flags that exist.
define SOAK
./cmd/stagepost -run RestoreDrill -drill-actions 1000
./flow -run Simulations -simulations 10000 -crashes 0
./store/sqlite -run TestFlippedBits -flips 5000
./store/sqlite -run TestLinesShrink -index-rows 100000000
./store/sqlite -run TestCosts -cost-jobs 100000
./cmd/stagepost -run TestKill$$ -kills 1000
./app/ingest -run TestTwoJobsRace -tries 1000
./app/ingest -run TestPlanManySmallObjects -jobs 10000
./app -run OnDisk -everywhere
./engine -run Simulation|Why -hours 1000 -rapid.checks 20000
./engine -run SlipsThrough|HoldRace -tries 10000
./cmd/stagepost -run Big -big-files 10000 -big-bytes 2147483648
./cmd/stagepost -run TestExampleWorkers -workerjobs 1000
./cmd/stagepost -run TestWorkKilled -worked-jobs 600
./worker -run TestKills -killed-jobs 5000
./cmd/stagepost -run TestRestart$$ -restarts 40 -restarts-objects 2000
./store/sqlite -run TestPowerCut$$ -cuts 1
./store/sqlite -run TestPowerCutWithLog$$ -images 50000
./store/sqlite -run TestCrashWithLog$$ -transitions 1
./store/postgres -run TestCosts -cost-jobs 100000
./store/postgres -run TestCrash$$ -transitions 1
./store/postgres -run TestStoreOfServers -sentences 1
./store/postgres -run TestConnectionLoss -losses 1
./store/postgres -run TestServerCrash -crashes 50
./store/zookeeper -run TestPartitions -partitions 24
./app/ingest/merritt -run TestRandom -actions 10000
./app/ingest/inventory -run TestConnectionLoss -losses 1
./app/archive/catalog -run TestConnectionLoss -losses 1
./store/postgres -run TestRandom -random-seeds 200 -random-calls 1000
./app/ingest -run TestPowerCutAnywhere -every-cut
./flow/durable -run KilledFlows -flows 200
./app/ingest/access -run Memory -vast
./format/ocfl -run TestPowerCut$$ -every-control
./edge/collect -run TestRace|Zip64Sizes -vast -swaps 300000
./app/compute/agent -run Big -big 2147483648
./app/compute -run DeathAtEveryChange -crash-sqlite
./app/compute -run LongQueue -queued 10000
./app/compute/orchestrator/trials -run TestKills -kills 3
./app/archive -run CrashAnywhere -crash.activities 3 -crash.stride 1
./store/zookeeper/internal/queue -run TestRandom -actions 2000
./store/zookeeper/internal/queue -run TestCrash$$ -every-write
./cmd/stagepost -run BigArchive -archived-files 10000
./cmd/stagepost -run TestArchiveKill$$ -archive-kills 0
./web -run TestFirstPage -page-jobs 1000000 -page-time 100ms
./cmd/stagepost -run TestCluster$$ -cluster.jobs 5000 -cluster.time 5m
./cmd/stagepost -run TestClusterDatabase -cluster.faults
endef
export SOAK

# The systems of the release binaries.
TARGETS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: help build demo transcript check darwin targets lint tests typescript browser browser-packages screenshots race shows cluster soak fuzz generate bench market \
	market-check tools

help:
	@sed -n 's/^# \{0,1\}\(make.*\)/\1/p' Makefile
	@echo "make build      bin/stagepost"
	@echo "make generate   write the generated documents anew"
	@echo "make screenshots  take those of docs/ anew"
	@echo "make bench      measure (see bench/README.md)"
	@echo "make market     measure beside other systems (see docs/performance.md)"

build:
	$(GO) build -o bin/stagepost ./cmd/stagepost

demo: build
	bin/stagepost demo

transcript:
	mkdir -p transcript
	$(GO) test -count=1 ./cmd/stagepost -run 'TestQuickStarts$$' -transcript "$$PWD/transcript"

tools:
	@scripts/tools

# Fast things first: what fails should fail soon. The counts are small; make soak has the long ones, and gives fuzz targets new
# inputs: here they run with those that were found. The cluster mostly waits for its own intervals, so it runs beside the
# linters.
check: tools
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint cluster
	@$(MAKE) --no-print-directory tests race browser typescript shows darwin
	@echo "everything passed"

lint: build
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt the files above"; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	scripts/deadcode
	promtool check rules docs/alerts.yml
	promtool test rules docs/alerts_test.yml
	$(GO) test . ./docs ./lifecycle/... ./job/...

# The sources for the system that differs most from linux/amd64 pass the type checker, which takes seconds, as deadcode
# loads all of them, the libraries too. make soak builds the program for every system.
darwin:
	@GOBIN="$$PWD/bin" $(GO) install golang.org/x/tools/cmd/deadcode@v0.52.0
	GOOS=darwin GOARCH=arm64 bin/deadcode ./cmd/stagepost >bin/deadcode.darwin

# The first time takes minutes; later ones use the build cache.
targets:
	@for t in $(TARGETS); do echo "build for $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/stagepost || exit 1; done

# The last packages in order of name take minutes, most of it waiting for servers: one of them runs beside others earlier.
# Of the packages that the race detector watches, only the tests that it leaves out run here.
tests: build
	scripts/test $$($(FOLDERS) ./api/... ./app/... ./store/zookeeper/internal/queue ./... | grep -vxFf <($(FOLDERS) $(RACE)))
	scripts/test -run '$(NO_RACE)' $(RACE)

# The description of the API is enough for clients: TypeScript types are made from it and used.
typescript: build
	scripts/typescript

# The pages in Debian's chromium: the main paths with and without the script, the keyboard alone, accessibility.
browser: browser-packages
	scripts/test ./web $(PAGES) -run TestBrowser -browser

browser-packages:
	@mkdir -p bin/browser && cp scripts/browser/package.json scripts/browser/package-lock.json bin/browser/
	@[ -d bin/browser/node_modules/axe-core ] || npm --prefix bin/browser ci --no-audit --no-fund

screenshots: browser-packages
	$(GO) test -p 1 ./cmd/stagepost ./web/access -run TestScreenshots -shots docs

race:
	CGO_ENABLED=1 scripts/test $(WATCHED) -skip '$(NO_RACE)' $(RACE)

# What the README and the examples show.
shows: build
	$(GO) run ./examples/embed
	rm -rf bin/demo-data && bin/stagepost demo --data bin/demo-data
	@echo "the views, read with the sqlite3 tool:"
	sqlite3 bin/demo-data/stagepost.db "SELECT count(*) FROM history WHERE at LIKE '20__-__-__T%'" | grep -v '^0$$'
	sqlite3 bin/demo-data/stagepost.db "SELECT count(*) FROM jobs WHERE created IS NULL OR changed IS NULL" | grep '^0$$'

# A real Slurm on this machine.
cluster:
	scripts/test ./app/compute/slurm -run Cluster -slurm

soak: check targets
	@CGO_ENABLED=1 scripts/test $(WATCHED) ./store/postgres ./store/zookeeper/...
	@CGO_ENABLED=1 scripts/test $(WATCHED) -skip '$(NO_RACE)' $(RACE_LONG)
	@scripts/soak <<<"$$SOAK"
	@scripts/fuzz $(LONG_INPUTS)
	@$(MAKE) market-check
	@echo "everything passed"

# So many inputs for each fuzz target: a count ends the same way on slow machines, a time does not.
fuzz:
	@scripts/fuzz $(INPUTS)

generate:
	$(GO) test ./docs -update
	$(GO) generate ./cmd/stagepost

bench:
	$(GO) test ./bench -run xxx -bench . -benchtime 20000x -timeout 60m

# Other systems beside this one, in a module of their own: MARKET has its flags.
market:
	@$(GO) -C bench/market run . -commit "$$(git rev-parse --short HEAD)" $(MARKET)

market-check:
	$(GO) -C bench/market vet .
	$(GO) -C bench/market test .
