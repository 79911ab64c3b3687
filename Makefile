# SPDX-License-Identifier: Apache-2.0
# DeviceShare Extender.  `make help` lists what can be made; the layers are in tests/checks/layers.mk.

VERSION    := 0.1.0
PREFIX     ?= /usr/local
SBINDIR    ?= $(PREFIX)/sbin
SYSCONFDIR ?= /etc
DOCDIR     ?= $(PREFIX)/share/doc/deviceshare-extender
# Debian's own Python, the one that python3-pytest installs for.
PYTHON     ?= /usr/bin/python3
INSTALL    ?= install
ifeq ($(origin CC),default)
CC := gcc
endif

DEBIAN_PACKAGES := gcc libc6-dev binutils pkgconf libmicrohttpd-dev libgnutls28-dev libjson-c-dev \
	libcurl4-openssl-dev|libcurl4-gnutls-dev libyaml-dev libcmocka-dev \
	ca-certificates curl openssl procps python3 python3-pytest python3-yaml \
	$(if $(findstring clang,$(CC)),clang libclang-rt-14-dev llvm) $(if $(VALGRIND),valgrind)

include tests/checks/layers.mk

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# As many jobs as processors, unless told otherwise.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
ifneq ($(word 2,$(MAKECMDGOALS)),)
.NOTPARALLEL: # `make clean all` means one after the other
endif

# Everything is made under build/; other compilers and sanitizers have a folder of their own there,
# say build/clang-address+undefined.
comma   := ,
empty   :=
space   := $(empty) $(empty)
variant := $(strip $(filter-out gcc,$(notdir $(CC))) $(subst $(comma),+,$(SAN)) \
	$(if $(LOCKTIME),locktime))
B       := build$(addprefix /,$(subst $(space),-,$(variant)))

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-4s %s\n' $1 $(2:$(B)/%=%))

# ---- flags --------------------------------------------------------------------------------------
# On a fresh machine neither compiler nor pkg-config is there when this file is read; `deps` brings
# them.  So both are asked at first need and the answer is remembered.
once = $(call once_,once.$(subst =,_,$(subst $(space),_,$1)),$2)
once_ = $(if $(filter undefined,$(origin $1)),$(eval $1 := $(shell $2)))$($1)
try  = $(call once,try $1,$(CC) -Werror $1 -x c -c -o /dev/null /dev/null 2>/dev/null && echo '$1')
pkg  = $(if $2,$(call once,pkg $1 $(sort $2),pkg-config $1 $(sort $2)))

CFLAGS ?= -O2 -g
code := -std=gnu11 -pthread -fPIE -fno-common -ffp-contract=off -ffile-prefix-map=$(CURDIR)=.
ifdef SAN
# -fno-strict-overflow would define what UBSan is to find, and fortified calls hide it from ASan.
code += -O1 -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
else
code += -fno-strict-overflow -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
harden = $(foreach f,-fstack-clash-protection -fcf-protection -ftrivial-auto-var-init=zero,$(call try,$f))
endif

warn := -Wall -Wextra -Wshadow -Wformat=2 -Wundef -Wvla -Wstrict-prototypes \
	-Wpointer-arith -Wold-style-definition -Wimplicit-fallthrough $(if $(WERROR)$(CI),-Werror)
# clang counts assert(!"reason") as a conversion.
warn_src = -Wconversion -Wsign-conversion -Wcast-qual -Wwrite-strings -Wmissing-prototypes \
	-Wredundant-decls $(if $(findstring clang,$(CC)),-Wno-string-conversion) \
	$(foreach f,-Wlogical-op -Wduplicated-cond,$(call try,$f))

ldflags := -pie -pthread -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed \
	$(addprefix -fsanitize=,$(SAN))

compile = $(CC) $(CPPFLAGS) -Iinclude $(CFLAGS) $(code) $(harden) $(warn)

# The commit this tree stands at, if it is a checkout; nothing in a release archive.
commit = $(call once,commit,test -e .git && git rev-parse --short=12 HEAD 2>/dev/null)

# ---- what there is ------------------------------------------------------------------------------
closure  = $(sort $(foreach l,$1,$l $(call closure,$(filter-out $l,$(uses_$l)))))
$(foreach l,$(LAYERS),$(eval src_$l := $(filter-out src/cmd/deviceshare-%,$(wildcard src/$l/*.c))))
# The archives and the libraries that layers $1 need, in link order.
archives = $(foreach l,$(filter $(call closure,$1),$(LAYERS)),$(if $(src_$l),$(B)/lib$l.a))
pkgs     = $(sort $(foreach l,$(call closure,$1),$(pkgs_$l)))

sources     := $(wildcard src/*/*.c tests/support/*.c tests/unit/*/test_*.c tests/property/test_*.c \
	tests/conformance/*.c tests/fuzz/*.c tests/e2e/stoppable/*.c tests/bench/*.c)
objects     := $(sources:%.c=$(B)/obj/%.o)
PROGRAMS    := $(patsubst src/cmd/%.c,$(B)/%,$(wildcard src/cmd/deviceshare-*.c))
UNIT        := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/*/test_*.c))
PROPERTY    := $(patsubst %.c,$(B)/%,$(wildcard tests/property/test_*.c))
CONFORMANCE := $(if $(wildcard tests/conformance/*.c),$(B)/tests/conformance)
FUZZ        := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
SUPPORT     := $(if $(wildcard tests/support/*.c),$(B)/tests/libsupport.a)
# The daemon once more, for stories that stop it in the middle of a bind.
STOPPABLE   := $(B)/tests/stoppable-extender
# What `make bench` runs: the benchmarks from inside, a bare HTTP server, and who calls both.
BENCH       := $(addprefix $(B)/tests/bench/,inside echo caller)
# What the property tests and the conformance runner work on, and the fuzz targets.
domain      := base core state codec sched
fuzzed      := $(domain) config embed http

# ---- compile and link ---------------------------------------------------------------------------
# PKGS is the list of libraries a target is compiled or linked with.
$(B)/obj/src/%.o: src/%.c $(B)/flags | deps
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(compile) $(warn_src) $(defines) $(call pkg,--cflags,$(PKGS)) -MMD -MP -c -o $@ $<

$(B)/obj/tests/%.o: tests/%.c $(B)/flags | deps
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(compile) -Itests/support $(call pkg,--cflags,$(PKGS)) -MMD -MP -c -o $@ $<

$(B)/lib%.a $(B)/tests/lib%.a: $(B)/sources
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsD $@ $(filter %.o,$^)

define layer_rules
$(B)/obj/src/$1/%.o: private PKGS = $(call pkgs,$1)
$(B)/obj/tests/unit/$1/%.o $(B)/tests/unit/$1/%: private PKGS = cmocka $(call pkgs,$1)
$(B)/lib$1.a: $(src_$1:%.c=$(B)/obj/%.o)
$(filter $(B)/tests/unit/$1/%,$(UNIT)): $(SUPPORT) $(call archives,$1)
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rules,$l)))

$(B)/obj/tests/% $(B)/tests/property/%: private PKGS = cmocka $(call pkgs,$(domain))
$(B)/obj/tests/fuzz/%: private PKGS = cmocka $(call pkgs,$(fuzzed))
$(B)/tests/conformance: private PKGS = $(call pkgs,$(domain))
$(B)/tests/fuzz/%: private PKGS = cmocka $(call pkgs,$(fuzzed))
$(B)/deviceshare-%: private PKGS = $(call pkgs,cmd)

$(B)/tests/libsupport.a: $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/support/*.c))
$(PROGRAMS): $(B)/%: $(B)/obj/src/cmd/%.o $(call archives,cmd)
$(UNIT) $(PROPERTY): $(B)/%: $(B)/obj/%.o
$(PROPERTY): $(SUPPORT) $(call archives,$(domain))
$(B)/tests/conformance: $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/conformance/*.c)) \
	$(call archives,$(domain))

$(STOPPABLE): private PKGS = $(call pkgs,cmd)
$(STOPPABLE): private ldflags += \
	$(addprefix -Wl$(comma)--wrap=,cache_book fence_reason_for kube_client_send cache_confirm)
$(STOPPABLE): $(B)/obj/src/cmd/deviceshare-extender.o $(B)/obj/tests/e2e/stoppable/stop_at.o \
	$(call archives,cmd)

# With LOCKTIME=1 the time under the lock of the state is measured; tests/bench/lock_time.h.
$(if $(LOCKTIME),$(B)/obj/src/state/%.o): private defines = \
	-DLOCK_TIME_REPLACE -include tests/bench/lock_time.h

bench_inside := $(filter-out %/echo.c %/caller.c,$(wildcard tests/bench/*.c))
$(B)/tests/bench/inside: private PKGS = $(call pkgs,kube config)
$(B)/tests/bench/inside: private ldflags += -Wl,--wrap=kube_client_send
$(B)/tests/bench/inside: $(bench_inside:%.c=$(B)/obj/%.o) $(call archives,kube config)
$(B)/tests/bench/echo: private PKGS = libmicrohttpd
$(B)/tests/bench/echo $(B)/tests/bench/caller: $(B)/tests/bench/%: $(B)/obj/tests/bench/%.o

# As plain programs that run over a corpus; with FUZZER=1, and clang, those that make up their input.
$(FUZZ): private LDFLAGS += $(if $(FUZZER),-fsanitize=fuzzer)
$(FUZZ): $(B)/%: $(B)/obj/%.o $(if $(FUZZER),,$(B)/obj/tests/fuzz/replay.o) \
	$(SUPPORT) $(call archives,$(fuzzed))
# The server's loop is turned by hand, and its log is not kept.
$(B)/tests/fuzz/fuzz_http: $(B)/obj/tests/fuzz/http_messages.o
$(B)/tests/fuzz/fuzz_http: private ldflags += \
	$(addprefix -Wl$(comma)--wrap=,MHD_start_daemon connections_start log_write)

ifdef FUZZER
# What an oracle does is no news.
$(B)/obj/tests/support/%.o: private code += -fno-sanitize=fuzzer-no-link
$(B)/obj/src/http/server.o: private defines = -DCONNECTION_MEMORY_BYTES='((size_t)16384)'
endif

$(PROGRAMS) $(UNIT) $(PROPERTY) $(CONFORMANCE) $(STOPPABLE) $(FUZZ) $(BENCH):
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(code) $(ldflags) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) \
		$(call pkg,--libs,$(PKGS)) -lm $(LDLIBS)

$(B)/obj/src/cmd/version.o: $(B)/version
$(B)/obj/src/cmd/version.o: private defines = \
	-DDEVICESHARE_VERSION='"$(VERSION)"' -DDEVICESHARE_COMMIT='"$(commit)"'

# Files that change when their text does, so that new flags, a new commit or a removed source file
# rebuild what they touch and nothing else.
$(B)/flags:   private text = $(compile) $(warn_src) $(ldflags) $(LDFLAGS)
$(B)/version: private text = $(VERSION) $(commit)
$(B)/sources: private text = $(sources)
$(B)/flags $(B)/version $(B)/sources: FORCE | deps
	@mkdir -p $(@D) && printf '%s\n' '$(text)' | cmp -s - $@ || printf '%s\n' '$(text)' >$@
FORCE:

-include $(objects:.o=.d)

# ---- targets for people -------------------------------------------------------------------------
.PHONY: FORCE all run tests test check conformance model analyze mutation prove fuzz fuzz-run \
	test-check test-unit test-property test-conformance \
	test-corpus test-integration test-bare test-image e2e e2e-all e2e-parts figures pictures bench \
	install uninstall clean help deps

all: $(PROGRAMS) | deps ## build the programs (default)

run: all ## build, then run the scheduler extender with its demo cluster
	@exec config/demo/run.sh $(B)

conformance: $(CONFORMANCE) | deps ## build the conformance runner

suite = @B='$(B)' PYTHON='$(PYTHON)' TEST='$(TEST)' SAN='$(SAN)' VALGRIND='$(VALGRIND)' \
	HEADER_CC='$(compile) $(warn_src) -Werror $(call pkg,--cflags,$(call pkgs,cmd))' \
	tests/checks/suite.sh

tests: all $(UNIT) $(PROPERTY) $(CONFORMANCE) $(FUZZ) $(BENCH) $(call archives,core) ## build the programs and all tests

test: tests ## build and test everything (TEST=pattern picks)
	$(suite) check unit property conformance corpus integration

check: test-check ## check layers, headers, symbols, style and docs
test-check: $(PROGRAMS) $(call archives,core)
test-unit: $(UNIT)
test-property: $(PROPERTY)
test-conformance: $(CONFORMANCE)
test-corpus: $(FUZZ)
test-integration: $(PROGRAMS) $(CONFORMANCE)
test-check test-unit test-property test-conformance test-corpus test-integration: | deps ## one part of the tests
	$(suite) $(@:test-%=%)

model: ## check the model of the protocol with SPIN, whole and without each safeguard (V=1 tells why)
	@.ci/deps spin gcc libc6-dev
	@V='$(V)' tests/model/check.sh '$(CURDIR)/build/model'

# -O1: with more, the analyzer looks at what was inlined again and again.
analyze: | deps ## let gcc and cppcheck look for faults in src/
	@.ci/deps cppcheck
	@ANALYZE_CC='gcc -std=gnu11 -pthread -O1 -Iinclude $(call pkg,--cflags,$(call pkgs,cmd))' tests/checks/analyze.sh

mutation: $(UNIT) $(PROPERTY) | deps ## plant small faults in core and state, and see which test notices (TEST=file)
	@TEST='$(TEST)' $(PYTHON) -B tests/mutation/run.py '$(B)'

prove: ## run the long suites, hours (TEST="part part", SCALE=100 for minutes); see docs/proof.md
	+@MAKE='$(MAKE)' MAKEFLAGS= SCALE='$(SCALE)' tests/prove.sh $(TEST)

# libFuzzer needs every object told of coverage; such a build is one of its own.
fuzz: | deps ## let each fuzz target make up input (SECONDS=n each, RUNS=n; SEED=n; TEST=pattern)
	@MAKEFLAGS= $(MAKE) --no-print-directory CC=clang SAN=fuzzer-no-link,address,undefined FUZZER=1 \
		SECONDS='$(SECONDS)' RUNS='$(RUNS)' SEED='$(SEED)' MERGE='$(MERGE)' TEST='$(TEST)' V='$(V)' fuzz-run

fuzz-run: $(FUZZ)
	@B='$(B)' TEST='$(TEST)' SECONDS_EACH='$(SECONDS)' RUNS='$(RUNS)' SEED='$(SEED)' MERGE='$(MERGE)' \
		tests/fuzz/run.sh

test-bare: | deps ## run README's commands in a minimal Debian root (needs root)
	@tests/bare/run.sh

test-image: ## carry out deploy/Dockerfile in a minimal Debian root and look at the image (needs root)
	@deploy/image/check.sh

e2e: all $(STOPPABLE) e2e-parts | deps ## play the stories on a real control plane (TEST=pattern, K8S_VERSION=)
	@DEVICESHARE_BUILD='$(B)' K8S_VERSION='$(K8S_VERSION)' PYTHONDONTWRITEBYTECODE=1 \
		$(PYTHON) -m pytest -q -ra -p no:cacheprovider --durations=5 \
		$(if $(TEST),-k '$(TEST)') tests/e2e </dev/null

E2E_VERSIONS = $(patsubst tests/e2e/parts/k8s-%,%,$(wildcard tests/e2e/parts/k8s-*))
e2e-all: ## play the stories on each Kubernetes version that is known (a quarter of an hour each)
	@for version in $(E2E_VERSIONS); do \
		$(MAKE) --no-print-directory e2e K8S_VERSION=$$version || failed="$$failed $$version"; done; \
		test -z "$$failed" || { echo "failed on$$failed" >&2; exit 1; }

pictures: all | deps ## draw the pictures of docs/which-policy.md (TRACES=folder: the curves too)
	@$(PYTHON) docs/pictures/draw.py modes --build '$(B)'
	@$(if $(TRACES),$(PYTHON) docs/pictures/draw.py curves --build '$(B)' --traces '$(TRACES)')

figures: all e2e-parts | deps ## measure on a real control plane, minutes (ARGS=, see docs/figures.md)
	@DEVICESHARE_BUILD='$(B)' K8S_VERSION='$(K8S_VERSION)' PYTHONDONTWRITEBYTECODE=1 \
		$(PYTHON) tests/bench/figures.py $(or $(ARGS),all)

# The time under the lock is measured by a build of its own.
bench: $(PROGRAMS) $(BENCH) $(if $(findstring scheduler,$(ARGS)),e2e-parts) | deps ## measure against the targets (SMOKE=1: right answers only; ARGS=, see docs/benchmarks.md)
	@MAKEFLAGS= $(MAKE) --no-print-directory LOCKTIME=1 V='$(V)' build/locktime/tests/bench/inside
	@DEVICESHARE_BUILD='$(B)' PYTHONDONTWRITEBYTECODE=1 \
		$(PYTHON) tests/bench/bench.py $(if $(SMOKE),--smoke) $(ARGS)

e2e-parts: | deps ## build etcd and Kubernetes for e2e, if they are not there (10 minutes, once)
	@tests/e2e/parts/build.sh $(K8S_VERSION)

deps: ## install the missing Debian packages
	@.ci/deps $(DEBIAN_PACKAGES:%='%')

docs     = $(wildcard *.md LICENSE docs/*.md)
examples = $(wildcard config/*.yaml)

install: all ## install under $(DESTDIR)$(PREFIX); an existing configuration is kept
	$(INSTALL) -d $(DESTDIR)$(SBINDIR) $(DESTDIR)$(SYSCONFDIR)/deviceshare $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 755 $(PROGRAMS) $(DESTDIR)$(SBINDIR)
	for f in $(docs); do $(INSTALL) -D -m 644 $$f $(DESTDIR)$(DOCDIR)/$$f || exit 1; done
	for f in $(examples); do to=$(DESTDIR)$(SYSCONFDIR)/deviceshare/$${f##*/}; \
		test -e $$to || $(INSTALL) -m 644 $$f $$to || exit 1; done

uninstall: ## remove what install put there; a changed configuration is kept
	rm -f $(PROGRAMS:$(B)/%=$(DESTDIR)$(SBINDIR)/%)
	rm -rf $(DESTDIR)$(DOCDIR)
	for f in $(examples); do to=$(DESTDIR)$(SYSCONFDIR)/deviceshare/$${f##*/}; \
		! cmp -s $$f $$to || rm -f $$to; done
	rmdir $(DESTDIR)$(SYSCONFDIR)/deviceshare 2>/dev/null || true

clean: ## remove build/
	rm -rf build

help: ## show this text
	@awk -F ':.*## ' '/^[a-z].*## /{ \
		printf((length($$1) > 12 ? "  make %s\n%20s%s\n" : "  make %-12s %s%s\n"), $$1, "", $$2) }' Makefile
	@echo 'Variables: V=1  WERROR=1  CC=clang  SAN=address,undefined|thread  VALGRIND=1  TEST=pattern  PREFIX=  DESTDIR='
