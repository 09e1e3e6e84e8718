package kind

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pod is a program that a Deployment keeps running.
type pod struct {
	cluster               *cluster
	namespace, deployment string
}

// limit is how long Kubernetes may take to start or end a pod, on a machine with two slow processors.
const limit = 2 * time.Minute

// Stop scales the program to nothing and waits until its pods are gone.
func (p *pod) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := p.cluster.kubectl(ctx, "-n", p.namespace, "scale", "deployment/"+p.deployment, "--replicas=0"); err != nil {
		return err
	}
	_, err := p.cluster.kubectl(ctx, "-n", p.namespace, "wait", "pod", "-l", p.selector(), "--for=delete", "--timeout=90s")
	return err
}

// Kill deletes the program's pods without letting them end, and waits until they are gone; the Deployment starts others.
func (p *pod) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	before, err := p.names(ctx)
	if err != nil {
		return err
	}
	if len(before) == 0 {
		return fmt.Errorf("%s has no pod to kill", p.deployment)
	}
	_, err = p.cluster.kubectl(ctx, append([]string{"-n", p.namespace, "delete", "--grace-period=0", "--force", "--wait"}, before...)...)
	return err
}

// names are the pods as kubectl names them, pod/NAME.
func (p *pod) names(ctx context.Context) ([]string, error) {
	list, err := p.cluster.kubectl(ctx, "-n", p.namespace, "get", "pods", "-l", p.selector(), "-o", "name")
	return strings.Fields(list), err
}

// Log gives what the running pods printed.
func (p *pod) Log() string {
	log, err := p.cluster.kubectl(context.Background(), "-n", p.namespace, "logs", "-l", p.selector(), "--tail=-1", "--prefix")
	if err != nil {
		return err.Error()
	}
	return log
}

func (p *pod) selector() string { return "app.kubernetes.io/name=" + p.deployment }
