package receiver

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Limits for a notification. A zot event contains the pushed manifest, encoded twice as a JSON string.
const (
	maxBodyBytes = 2 << 20
	maxEvents    = 1000
	maxDepth     = 20
)

// Media types and event types.
//
// Source: distribution v3, docs/content/about/notifications.md; zot, pkg/extensions/events; Harbor, "Configure Webhook
// Notifications" and src/pkg/notifier/formats; CloudEvents 1.0.2, HTTP protocol binding.
const (
	distributionEvents   = "application/vnd.docker.distribution.events.v2+json"
	distributionEventsV1 = "application/vnd.docker.distribution.events.v1+json"
	cloudEvent           = "application/cloudevents+json"
	plainJSON            = "application/json"

	headerType = "Ce-Type" // header on a CloudEvent whose body contains only the data

	distributionPush = "push"
	harborPush       = "PUSH_ARTIFACT"
	harborPushed     = "harbor.artifact.pushed"
	zotUpdated       = ".image.updated" // suffix of the event type, whose prefix an operator can configure
)

type distributionEnvelope struct {
	Events []struct {
		Action string `json:"action"`
		Target struct {
			Repository string `json:"repository"`
		} `json:"target"`
	} `json:"events"`
}

type eventData struct {
	Name       string `json:"name"`
	Repository struct {
		FullName string `json:"repo_full_name"`
	} `json:"repository"`
}

// plainEvent is a CloudEvent, or an event in Harbor's default format.
type plainEvent struct {
	Type      string    `json:"type"`
	Data      eventData `json:"data"`
	EventData eventData `json:"event_data"`
}

// pushedRepositories returns the repositories that a notification's pushes changed. It ignores pulls, because the
// publisher's own pulls would cause endless notifications.
func pushedRepositories(contentType, eventType string, body []byte) ([]string, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, nil
	}
	switch kind {
	case distributionEvents, distributionEventsV1:
		return pushedToDistribution(body)
	case cloudEvent, plainJSON:
	default:
		return nil, nil
	}
	if kind == plainJSON && eventType != "" {
		var data eventData
		if err := decode(body, &data); err != nil {
			return nil, err
		}
		return pushedBy(eventType, data), nil
	}
	var event plainEvent
	if err := decode(body, &event); err != nil {
		return nil, err
	}
	if kind == plainJSON {
		return pushedBy(event.Type, event.EventData), nil
	}
	return pushedBy(event.Type, event.Data), nil
}

func pushedToDistribution(body []byte) ([]string, error) {
	var envelope distributionEnvelope
	if err := decode(body, &envelope); err != nil {
		return nil, err
	}
	if n := len(envelope.Events); n > maxEvents {
		return nil, fmt.Errorf("events: %d entries, must be at most %d", n, maxEvents)
	}
	var repositories []string
	for _, event := range envelope.Events {
		if event.Action == distributionPush {
			repositories = append(repositories, event.Target.Repository)
		}
	}
	return repositories, nil
}

func pushedBy(kind string, data eventData) []string {
	switch {
	case kind == harborPush, kind == harborPushed:
		return []string{data.Repository.FullName}
	case strings.HasSuffix(kind, zotUpdated):
		return []string{data.Name}
	}
	return nil
}

func decode(body []byte, into any) error {
	if err := strict.CheckJSON(body, maxDepth); err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// reportingRuntimes returns the runtimes whose report repositories are in the list, without duplicates. The parameter
// prefix is the path of the fleet's location.
func reportingRuntimes(prefix string, repositories []string) []string {
	var runtimes []string
	seen := map[string]bool{}
	for _, repository := range repositories {
		runtime, ok := strings.CutPrefix(repository, prefix+"/"+bundle.ReportRepository(""))
		if !ok || trust.CheckRuntimeID(runtime) != nil || seen[runtime] {
			continue
		}
		seen[runtime] = true
		runtimes = append(runtimes, runtime)
	}
	return runtimes
}
