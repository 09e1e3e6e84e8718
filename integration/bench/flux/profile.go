package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

const profiled = 30 * time.Second

// profile starts a CPU profile if profiles are enabled. It prints errors instead of returning them, because the
// measurement does not depend on the profile.
func (b *bench) profile(ctx context.Context, stage string) {
	address := b.profiles()
	if address == "" {
		return
	}
	go func() {
		if err := fetchProfile(ctx, address, filepath.Join(b.options.Profiles, stage+".pprof")); err != nil {
			b.say("profile of %s: %v", stage, err)
		}
	}()
}

func fetchProfile(ctx context.Context, address, path string) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", address, profiled.Seconds()), nil)
	if err != nil {
		return err
	}
	var response *http.Response
	err = fleet.Until(ctx, time.Minute, "profiles are served", func() (bool, string) {
		var err error
		if response, err = http.DefaultClient.Do(request); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent's pprof endpoint returned %s", response.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
