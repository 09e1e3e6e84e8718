package kind

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// link is the way from a runtime's node and pods to the registry, made narrow with the node's own iptables and tc.
type link struct {
	cluster *cluster
	// netem says that packets are lost by the queueing discipline, not by a rule.
	netem bool
}

// chain holds our rules, apart from those of kube-proxy.
const chain = "KYMA-PULL-LINK"

// Cut drops every packet to the registry.
func (l *link) Cut(ctx context.Context) error {
	return l.rule(ctx, "-j", "DROP")
}

// Impair loses a fifth of all packets and delays the rest. Where the kernel has no netem it loses those to the registry, and
// lets no more than a modem's worth of the rest through.
func (l *link) Impair(ctx context.Context) (string, error) {
	if err := l.Heal(ctx); err != nil {
		return "", err
	}
	_, err := l.cluster.inNode(ctx, "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "loss", "20%", "delay", "100ms", "20ms")
	if l.netem = err == nil; l.netem {
		return "tc netem loss 20% delay 100ms", nil
	}
	if !strings.Contains(err.Error(), "qdisc kind is unknown") {
		return "", err
	}
	if _, err := l.cluster.inNode(ctx, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "1mbit", "burst", "16kb", "latency", "400ms"); err != nil {
		return "", err
	}
	return "this kernel has no netem: iptables statistic 20%, tc tbf 1mbit", l.rule(ctx, "-m", "statistic", "--mode", "random", "--probability", "0.2", "-j", "DROP")
}

// rule puts one rule in the way of packets to the registry, in the place of what was there.
func (l *link) rule(ctx context.Context, rule ...string) error {
	registry, err := address(ctx, registryContainer)
	if err != nil {
		return err
	}
	if err := l.clear(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-N", chain}, append([]string{"-A", chain}, rule...),
		{"-I", "FORWARD", "-d", registry, "-j", chain}, {"-I", "OUTPUT", "-d", registry, "-j", chain},
	} {
		if err := l.iptables(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Heal takes away what Cut and Impair put in.
func (l *link) Heal(ctx context.Context) error {
	if err := l.clear(ctx); err != nil {
		return err
	}
	l.netem = false
	_, err := l.cluster.inNode(ctx, "tc", "qdisc", "del", "dev", "eth0", "root")
	if err != nil && strings.Contains(err.Error(), "Cannot delete qdisc with handle of zero") {
		return nil // there is none but the kernel's own
	}
	return err
}

func (l *link) clear(ctx context.Context) error {
	rules, err := l.cluster.inNode(ctx, "iptables", "-S")
	if err != nil {
		return err
	}
	for rule := range strings.Lines(rules) {
		if args := strings.Fields(rule); len(args) > 1 && args[0] == "-A" && args[1] != chain && strings.HasSuffix(strings.TrimSpace(rule), "-j "+chain) {
			if err := l.iptables(ctx, append([]string{"-D"}, args[1:]...)...); err != nil {
				return err
			}
		}
	}
	if !strings.Contains(rules, "-N "+chain) {
		return nil
	}
	if err := l.iptables(ctx, "-F", chain); err != nil {
		return err
	}
	return l.iptables(ctx, "-X", chain)
}

func (l *link) iptables(ctx context.Context, args ...string) error {
	_, err := l.cluster.inNode(ctx, append([]string{"iptables", "--wait"}, args...)...)
	return err
}

// Dropped counts what was swallowed, by the counters of the kernel.
func (l *link) Dropped(ctx context.Context) (int, error) {
	if l.netem {
		shown, err := l.cluster.inNode(ctx, "tc", "-s", "qdisc", "show", "dev", "eth0", "root")
		if err != nil {
			return 0, err
		}
		return droppedByNetem(shown)
	}
	shown, err := l.cluster.inNode(ctx, "iptables", "--wait", "-nvxL", chain)
	if err != nil {
		return 0, err
	}
	return droppedByRules(shown)
}

// Source: tc(8), -statistics.
func droppedByNetem(shown string) (int, error) {
	_, rest, found := strings.Cut(shown, "(dropped ")
	count, _, _ := strings.Cut(rest, ",")
	if !found {
		return 0, fmt.Errorf("tc shows no counter: %q", shown)
	}
	return strconv.Atoi(count)
}

// Source: iptables(8), --list --verbose --exact: packets, bytes, target.
func droppedByRules(shown string) (int, error) {
	dropped, found := 0, false
	for line := range strings.Lines(shown) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "DROP" {
			continue
		}
		packets, err := strconv.Atoi(fields[0])
		if err != nil {
			return 0, fmt.Errorf("read the counter of %q: %w", strings.TrimSpace(line), err)
		}
		dropped, found = dropped+packets, true
	}
	if !found {
		return 0, fmt.Errorf("no rule drops anything: %q", shown)
	}
	return dropped, nil
}
