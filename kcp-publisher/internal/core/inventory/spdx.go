package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const creator = "kcp-publisher"

// SPDX returns the same bill of materials as CycloneDX, but as an SPDX 2.3 document.
func (f Fleet) SPDX(name string, now time.Time) *spdx.Document {
	bill := f.CycloneDX(name, now)
	fleet := *bill.Metadata.Component
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: creator}},
			Created:  now.UTC().Format(time.RFC3339),
		},
		Packages: []*spdx.Package{spdxPackage(fleet)},
		Relationships: []*spdx.Relationship{
			newRelationship("DOCUMENT", common.TypeRelationshipDescribe, elementID(fleet.BOMRef)),
		},
	}
	for _, c := range *bill.Components {
		document.Packages = append(document.Packages, spdxPackage(c))
	}
	identity := sha256.New()
	for _, d := range *bill.Dependencies {
		for _, on := range *d.Dependencies {
			identity.Write([]byte(d.Ref + " " + on + "\n"))
			document.Relationships = append(document.Relationships,
				newRelationship(elementID(d.Ref), common.TypeRelationshipContains, elementID(on)))
		}
	}
	// SPDX 2.3 section 6.5 requires a unique namespace for each document.
	document.DocumentNamespace = "https://kyma-pull.dev/spdx/" + url.PathEscape(name) + "/" +
		now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(identity.Sum(nil)[:8])
	return document
}

func spdxPackage(c cyclonedx.Component) *spdx.Package {
	p := &spdx.Package{
		PackageName: c.Name, PackageSPDXIdentifier: elementID(c.BOMRef), PackageVersion: c.Version,
		PackageDownloadLocation: "NOASSERTION", PrimaryPackagePurpose: strings.ToUpper(string(c.Type)),
	}
	if c.Type == cyclonedx.ComponentTypePlatform {
		p.PrimaryPackagePurpose = "OTHER"
	}
	if c.Properties != nil {
		var comments []string
		for _, property := range *c.Properties {
			comments = append(comments, property.Name+": "+onOneLine(property.Value))
		}
		p.PackageComment = strings.Join(comments, "\n")
	}
	if c.PackageURL != "" {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.PackageURL,
		}}
	}
	return p
}

// onOneLine replaces line breaks and other control characters, so that hostile text cannot add another property.
func onOneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

func newRelationship(a common.ElementID, kind string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(a)), RefB: common.MakeDocElementID("", string(b)), Relationship: kind,
	}
}

// elementID returns an SPDX identifier for a reference. An SPDX identifier can contain only letters, digits, periods
// and hyphens. The result contains the whole digest, because an attacker could find two images with the same shorter
// digest.
func elementID(ref string) common.ElementID {
	kind, name, named := strings.Cut(ref, ":")
	if !named {
		return common.ElementID(kind)
	}
	sum := sha256.Sum256([]byte(name))
	return common.ElementID(kind + "-" + hex.EncodeToString(sum[:]))
}
