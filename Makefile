# Foreshard's everyday commands. `make help` lists them.
#
# They act on the testbed: a real Kubernetes on this machine, made by crates/testbed, which they bring up themselves.
# With CLUSTER=current they act on the cluster of your own kubeconfig instead, and no testbed is made:
#
#   make deploy CLUSTER=current IMAGE=registry.example/foreshard:1.2

SHELL := /bin/bash
# The steps of a target build upon each other.
.NOTPARALLEL:
.DEFAULT_GOAL := help

# testbed, or current: the cluster of your kubeconfig
CLUSTER ?= testbed
# The operator's image; empty for the testbed's own, or with CLUSTER=current for the chart's default
IMAGE ?=
# More arguments for the operator of `make run`
ARGS ?=
export CLUSTER

# Where rustup and Go are often found without being in PATH; hack/setup.sh does the same.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

# Both wrappers know CLUSTER.
KUBECTL ?= ./bin/kubectl
HELM ?= ./bin/helm
TESTBED := target/debug/testbed
NAMESPACE := foreshard-system
SAMPLE ?= config/samples/cluster.yaml
DIGEST_FILE := .testbed/images/program-foreshard-dev/image.json

ifeq ($(CLUSTER),current)
  # The pods' addresses may not be reachable from here; through the API server they always are.
  IN_CLUSTER :=
  RUN_ARGS := --transport=port-forward
  IMAGE_VALUES := $(if $(IMAGE),--set image.repository=$(shell echo '$(IMAGE)' | sed 's/:[^:/]*$$//') --set image.tag=$(shell echo '$(IMAGE)' | sed -n 's/.*:\([^:/]*\)$$/\1/p'))
else ifeq ($(CLUSTER),testbed)
  # Pods and the API server can only be reached from inside the testbed's network.
  IN_CLUSTER := $(TESTBED) exec --
  RUN_ARGS :=
  # The tag stays the same when the image changes: the digest makes the pods follow.
  IMAGE_VALUES = --set image.repository=docker.io/foreshard/foreshard --set image.tag=dev \
    --set-string "podAnnotations.foreshard\.io/image-digest=$$(sed -n 's/.*"digest": *"\([^"]*\)".*/\1/p' $(DIGEST_FILE))"
else
  $(error CLUSTER is "$(CLUSTER)": it can be testbed or current)
endif

# Takes over what `kubectl apply` made before. Helm 3 knows neither of these the same way, so it is asked.
HELM_INSTALL = $(HELM) upgrade --install --namespace $(NAMESPACE) \
  $$($(HELM) upgrade --help | grep -oE -e '--(take-ownership|force-conflicts)' | sort -u)

##@ Two commands to start with

.PHONY: demo
demo: ## Show it: testbed up, operator installed, a cluster made, load running
	@hack/demo.sh

.PHONY: test
test: setup ## Everything: lint, unit, engine-test, e2e; the last line is `N passed, M failed`
	@cargo xtask test

##@ While you write code

.PHONY: build
build: setup ## Compile everything
	cargo build --workspace --all-targets

.PHONY: check
check: setup ## Compile without making programs
	cargo check --workspace --all-targets

.PHONY: fmt
fmt: setup ## Format the code
	cargo fmt --all

.PHONY: generate
generate: setup ## Write CRDs, RBAC and the charts' copies from the code
	cargo xtask generate

.PHONY: lint
lint: setup programs ## Format, clippy, licences and advisories, generated files, charts
	@cargo xtask lint

.PHONY: unit
unit: setup ## Tests that need nothing but the code
	cargo test --workspace --exclude foreshard-engine-tests --no-fail-fast

.PHONY: engine-test
engine-test: setup $(TESTBED) ## Tests against real Valkey and Redis processes
	$(TESTBED) images
	cargo test -p foreshard-engine-tests --no-fail-fast
	cargo test -p foreshard-load --features engine-tests --no-fail-fast --test '*'

.PHONY: run
run: setup cluster install ## Run the operator outside of the cluster (ARGS=--log-level=debug)
	cargo build -p foreshard-operator
	$(IN_CLUSTER) target/debug/foreshard --lease-namespace=$(NAMESPACE) $(RUN_ARGS) $(ARGS)

##@ Scenarios on Kubernetes

E2E := target/debug/e2e

.PHONY: e2e
e2e: deploy e2e-build ## Scenarios tagged core; ONLY=<scenario> for one by name
	$(IN_CLUSTER) $(E2E) run $(if $(ONLY),--only $(ONLY),--tag core)

.PHONY: e2e-all
e2e-all: deploy e2e-build ## Every scenario
	$(IN_CLUSTER) $(E2E) run

.PHONY: e2e-list
e2e-list: setup e2e-build ## The name and tags of every scenario
	@$(E2E) list

.PHONY: bench
bench: bench-name deploy e2e-build ## A benchmark by name: ONLY=<name>; writes target/bench/<name>.json
	$(IN_CLUSTER) $(E2E) bench $(ONLY)

.PHONY: bench-name
bench-name:
	@[ -n "$(ONLY)" ] || { echo "which one? make bench ONLY=<name>"; exit 2; }

.PHONY: e2e-build
e2e-build: setup
	cargo build -p foreshard-e2e

##@ The testbed

.PHONY: cluster
ifeq ($(CLUSTER),current)
cluster:
	@$(KUBECTL) version >/dev/null || { echo "CLUSTER=current: your kubeconfig's cluster does not answer"; exit 1; }
else
cluster: setup $(TESTBED) ## Bring up a real Kubernetes on this machine (NODES=2)
	$(TESTBED) up $(if $(NODES),--nodes $(NODES))
endif

.PHONY: cluster-down
cluster-down: setup $(TESTBED) ## Take it down and leave nothing behind
	$(TESTBED) down

.PHONY: kubeconfig
kubeconfig: setup $(TESTBED) ## Say how to reach it
	@$(TESTBED) kubeconfig

# Kubernetes and Helm, from source: minutes the first time, nothing after that.
.PHONY: programs
programs: $(TESTBED)
	$(TESTBED) build

# Cargo knows whether there is something to do.
.PHONY: $(TESTBED)
$(TESTBED): setup
	cargo build -p foreshard-testbed

##@ On the cluster

.PHONY: image
image: setup $(TESTBED) ## Make the images of the operator and of the load generator; load them into the testbed
	$(TESTBED) operator-images

.PHONY: install
install: install-crd install-rbac ## CRDs and RBAC, without the operator

.PHONY: install-crd
install-crd: cluster namespace ## The CRDs
	@$(HELM_INSTALL) foreshard-crds charts/foreshard-crds --hide-notes >/dev/null
	@echo 'Installed the CRDs (chart foreshard-crds)'

.PHONY: install-rbac
install-rbac: cluster namespace ## ServiceAccount, roles and bindings
	$(KUBECTL) apply --server-side --force-conflicts -f config/rbac

.PHONY: uninstall
uninstall: undeploy ## Operator, RBAC and CRDs; with the CRDs goes every ValkeyCluster
	$(HELM) uninstall foreshard-crds --namespace $(NAMESPACE) --ignore-not-found
	$(KUBECTL) delete --ignore-not-found -f config/rbac/binding.yaml -f config/rbac/role.yaml
	$(KUBECTL) delete --ignore-not-found -f config/crd

.PHONY: deploy
ifeq ($(CLUSTER),testbed)
deploy: cluster image
endif
ifeq ($(CLUSTER)$(IMAGE),current)
deploy:
	@echo 'Name the operator image that your cluster can pull: make deploy CLUSTER=current IMAGE=registry.example/foreshard:1.2'; exit 2
else
deploy: install-crd ## The CRDs and the operator, by Helm
	@$(HELM_INSTALL) foreshard charts/foreshard --hide-notes --wait --timeout 120s $(IMAGE_VALUES) >/dev/null || \
	  { $(KUBECTL) --namespace $(NAMESPACE) get pods,events; exit 1; }
	@echo 'Installed the operator (chart foreshard) in namespace $(NAMESPACE)'
endif

.PHONY: plugin
plugin: setup ## Build `kubectl foreshard`; ./bin/kubectl finds it by itself
	cargo build -p kubectl-foreshard
	@echo 'Built target/debug/kubectl-foreshard: put it into your PATH, or use ./bin/kubectl foreshard status'

.PHONY: undeploy
undeploy: ## The operator; CRDs and clusters stay
	$(HELM) uninstall foreshard --namespace $(NAMESPACE) --ignore-not-found --wait

.PHONY: deploy-sample
deploy-sample: cluster ## A ValkeyCluster (SAMPLE=config/samples/cluster.yaml)
	$(KUBECTL) apply -f $(SAMPLE)

.PHONY: delete-sample
delete-sample: ## The ValkeyCluster again
	$(KUBECTL) delete --ignore-not-found -f $(SAMPLE)

.PHONY: namespace
namespace:
	@$(KUBECTL) apply --server-side --force-conflicts -f config/rbac/00-namespace.yaml

##@ House

.PHONY: setup
setup: ## Install what is missing on a fresh Debian 12, as root
	@hack/setup.sh

.PHONY: clean
clean: ## What cargo built
	cargo clean

.PHONY: clean-all
clean-all: cluster-down clean ## Testbed down, its images and binaries gone, too
	rm -rf .testbed

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nCLUSTER=current acts on the cluster of your own kubeconfig instead of the testbed.\n'
