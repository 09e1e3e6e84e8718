package kind

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// link is the connection from a runtime's node to the registry. Its methods run iptables and tc in the node.
type link struct{ cluster *cluster }

// chain is the name of the iptables chain with the rules of this package.
const chain = "KYMA-PULL-LINK"

// Cut drops every packet to the registry.
func (l *link) Cut(ctx context.Context) error {
	return l.rule(ctx, "-j", "DROP")
}

// Impair drops a fifth of the packets to the registry and delays all traffic that leaves the node. It returns a
// description of the delay.
func (l *link) Impair(ctx context.Context) (string, error) {
	if err := l.Heal(ctx); err != nil {
		return "", err
	}
	if err := l.rule(ctx, "-m", "statistic", "--mode", "random", "--probability", "0.2", "-j", "DROP"); err != nil {
		return "", err
	}
	slowed, err := l.slow(ctx)
	return "iptables statistic 20%, " + slowed, err
}

// slow delays packets with netem. Without netem in the kernel, it limits the rate to 1 Mbit/s.
func (l *link) slow(ctx context.Context) (string, error) {
	_, err := l.cluster.inNode(ctx, "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "delay", "100ms", "20ms")
	if err == nil {
		return "tc netem delay 100ms 20ms", nil
	}
	if !strings.Contains(err.Error(), "qdisc kind is unknown") {
		return "", err
	}
	_, err = l.cluster.inNode(ctx, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "1mbit", "burst",
		"16kb", "latency", "400ms")
	return "tc tbf 1mbit, because this kernel has no netem", err
}

// rule sets the only iptables rule for packets to the registry, such as `-j DROP`.
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

// Heal removes the effects of Cut and Impair.
func (l *link) Heal(ctx context.Context) error {
	if err := l.clear(ctx); err != nil {
		return err
	}
	_, err := l.cluster.inNode(ctx, "tc", "qdisc", "del", "dev", "eth0", "root")
	if err != nil && strings.Contains(err.Error(), "Cannot delete qdisc with handle of zero") {
		return nil // only the kernel's default queueing discipline exists
	}
	return err
}

func (l *link) clear(ctx context.Context) error {
	rules, err := l.cluster.inNode(ctx, "iptables", "-S")
	if err != nil {
		return err
	}
	for rule := range strings.Lines(rules) {
		if args := strings.Fields(rule); len(args) > 1 && args[0] == "-A" && args[1] != chain &&
			strings.HasSuffix(strings.TrimSpace(rule), "-j "+chain) {
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

// Dropped returns the number of dropped packets.
func (l *link) Dropped(ctx context.Context) (int, error) {
	shown, err := l.cluster.inNode(ctx, "iptables", "--wait", "-nvxL", chain)
	if err != nil {
		return 0, err
	}
	return droppedPackets(shown)
}

// droppedPackets returns the packet counter of the DROP rule in the output of iptables.
//
// Source: iptables(8), --list --verbose --exact: packets, bytes, target.
func droppedPackets(shown string) (int, error) {
	count, found := 0, false
	for line := range strings.Lines(shown) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "DROP" {
			continue
		}
		packets, err := strconv.Atoi(fields[0])
		if err != nil {
			return 0, fmt.Errorf("read the counter of %q: %w", strings.TrimSpace(line), err)
		}
		count, found = count+packets, true
	}
	if !found {
		return 0, fmt.Errorf("no DROP rule found in %q", shown)
	}
	return count, nil
}
