package publicmodules

// module is a public project that its users install as a module. Its sources are in a Git repository.
type module struct {
	name string
	// repository is OWNER/NAME on GitHub.
	repository string
	// from is the release that is installed first. to is the release of the upgrade.
	from, to release
	// paths are the folders and files in the repository that the module is packaged from.
	paths []string
	// moves maps paths of the repository to other paths, before the module is packaged.
	moves map[string]string
	// content is the path that `component create` packages, relative to the root of the repository. The folder
	// testdata/NAME/files contains files to add to the repository, such as a kustomization.yaml. These files can
	// contain VERSION.
	content string
	// flags are further flags for `component create`. They can contain VERSION.
	flags []string
	// refused are paths that `component create` refuses, with a part of the message.
	refused map[string]string
	// converts is true if the CRDs have conversion webhooks.
	converts bool
	// keepsCRDs is true if the CRDs have helm.sh/resource-policy: keep, so that they stay after the removal.
	keepsCRDs bool
}

// release is a version of a module.
type release struct {
	version, tag string
	// commit is the tag's commit. Git verifies that the sources belong to this commit.
	commit string
}

// leavesFolder is the message for a kustomization that refers to a folder outside of its own folder.
const leavesFolder = "is outside of the content: package the parent folder with a kustomization.yaml that names this " +
	"folder"

// modules lists the tested modules. docs/reference/tested-modules.md contains the same list.
var modules = []module{
	{
		name: "cert-manager", repository: "cert-manager/cert-manager",
		from:      release{"1.20.3", "v1.20.3", "1e1d16d1744e6d9c80e464e58e8d9ab1caed222b"},
		to:        release{"1.21.1", "v1.21.1", "24e33194fb39488eff2bbf10c6dc640f407cad44"},
		paths:     []string{"deploy/charts/cert-manager"},
		content:   "deploy/charts/cert-manager",
		flags:     []string{"--set", "crds.enabled=true"},
		keepsCRDs: true,
	},
	{
		name: "ingress-nginx", repository: "kubernetes/ingress-nginx",
		from:    release{"4.14.5", "helm-chart-4.14.5", "0a6fadc01bd4706bc77ceaf91487345a8d03d9c0"},
		to:      release{"4.15.1", "helm-chart-4.15.1", "0a5901f3c64f11e92e487799b8da3f00cca37515"},
		paths:   []string{"charts/ingress-nginx"},
		content: "charts/ingress-nginx",
	},
	{
		name: "kube-prometheus", repository: "prometheus-operator/kube-prometheus",
		from:    release{"0.17.0", "v0.17.0", "d6d094d115093d81d3355bc970a93e4357d6ef05"},
		to:      release{"0.18.0", "v0.18.0", "4775d44d1aacfab7effa08293357521a3c603b87"},
		paths:   []string{"manifests"},
		content: "manifests",
	},
	{
		name: "istio", repository: "istio/istio",
		from:  release{"1.29.6", "1.29.6", "7019d6d3608e4995e9a36d2977cfec3a341431cd"},
		to:    release{"1.30.3", "1.30.3", "56df41f63e513f834c9a3af33d8aed82d1d961f2"},
		paths: []string{"manifests/charts/base", "manifests/charts/istio-control/istio-discovery"},
		moves: map[string]string{
			"manifests/charts/base":                          "charts/base",
			"manifests/charts/istio-control/istio-discovery": "charts/istiod",
		},
		content:   ".",
		keepsCRDs: true,
	},
	{
		name: "argo-workflows", repository: "argoproj/argo-workflows",
		from:    release{"4.0.10", "v4.0.10", "2334ea9dd8ccb0e5a6bfd1399fb84a114279e7d6"},
		to:      release{"4.1.2", "v4.1.2", "16a52d67daf2f4a8a76fa8bec02a76a46aa46257"},
		paths:   []string{"manifests/base", "manifests/cluster-install", "manifests/cluster-install-no-crds"},
		content: "manifests",
		refused: map[string]string{"manifests/cluster-install": leavesFolder},
	},
	{
		name: "keda", repository: "kedacore/keda",
		from:    release{"2.19.0", "v2.19.0", "3f88d60ae92f1174f67738f079f96ec17eeee77f"},
		to:      release{"2.20.2", "v2.20.2", "68a5b5028f35b22d50597c69819ab32c4e92f21a"},
		paths:   []string{"config"},
		content: "config",
		refused: map[string]string{"config/default": leavesFolder},
	},
	{
		name: "gateway-api", repository: "kubernetes-sigs/gateway-api",
		from:    release{"1.4.1", "v1.4.1", "477d172e6ac5eccb82b65781ddb8f924afec4170"},
		to:      release{"1.6.1", "v1.6.1", "8bb74df00e56ec8f944d48c25e6c1c9c2f6848e3"},
		paths:   []string{"config/crd"},
		content: "config/crd",
	},
	{
		name: "metallb", repository: "metallb/metallb",
		from:     release{"0.15.3", "v0.15.3", "85bfb4f0e0d35090c514e1e5e1a21a8bbd253518"},
		to:       release{"0.16.1", "v0.16.1", "791dfcc63ced7a6b3e869131eae75e645150fff0"},
		paths:    []string{"config/manifests/metallb-native.yaml"},
		content:  "config/manifests/metallb-native.yaml",
		converts: true,
	},
}
