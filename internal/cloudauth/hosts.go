package cloudauth

import (
	"net/url"
	"os"
	"regexp"
	"strings"
)

// hostNames contains a pattern for each provider's registry hosts. Cloud providers own the domains, so a login is never
// sent to another party's server.
//
// Source: ParseArtifactRepository in fluxcd/pkg/auth's providers; Amazon ECR endpoints and quotas.
var hostNames = map[string]*regexp.Regexp{
	AWS: regexp.MustCompile(
		`^[0-9]{12}\.dkr[.-]ecr(-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)$`),
	GCP:   regexp.MustCompile(`^(([a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev)$`),
	Azure: regexp.MustCompile(`^[a-z0-9-]+\.azurecr\.(io|cn|us)$`),
}

// Serves reports whether a provider logs in to the registry at a host.
func Serves(provider, host string) bool {
	pattern := hostNames[provider]
	return pattern != nil && pattern.MatchString(strings.ToLower(host))
}

// regionOf returns the region in an ECR registry's name, and the domain of that region's endpoints.
func regionOf(host string) (region, domain string) {
	parts := hostNames[AWS].FindStringSubmatch(strings.ToLower(host))
	if parts == nil {
		return "", ""
	}
	if strings.HasPrefix(parts[2], "cn-") {
		return parts[2], "amazonaws.com.cn"
	}
	return parts[2], "amazonaws.com"
}

// endpointVariables lists the environment variables of each provider that contain a URL or host.
var endpointVariables = map[string][]string{
	AWS: {
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_ECR", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT",
	},
	GCP:   {"GCE_METADATA_HOST"},
	Azure: {"AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"},
}

// metadataHosts lists the metadata services of each provider.
//
// Source: documentation of IMDS and EKS Pod Identity (AWS), of GKE's metadata server, and of IMDS (Azure).
var metadataHosts = map[string][]string{
	AWS:   {"169.254.169.254", "[fd00:ec2::254]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"},
	GCP:   {gcpMetadata, "metadata.google.internal"},
	Azure: {"169.254.169.254"},
}

// localHosts returns a provider's hosts that can have internal addresses: its metadata services, and the hosts in its
// endpoint variables.
func localHosts(provider string) []string {
	hosts := append([]string(nil), metadataHosts[provider]...)
	for _, name := range endpointVariables[provider] {
		value := os.Getenv(name)
		if at, err := url.Parse(value); err == nil && at.Host != "" {
			value = at.Host
		}
		if value != "" {
			hosts = append(hosts, value)
		}
	}
	return hosts
}
