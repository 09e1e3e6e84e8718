package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Users that are not runtimes. Their first character is not allowed in a runtime ID.
const (
	UserPublisher = "_publisher"
	UserModules   = "_modules"
	UserPruner    = "_pruner"
	UserReader    = "_reader"
)

const (
	passwordPrefix = "kpr1"
	passwordLabel  = "kyma-pull registry password v1"
	minSecret      = 32
)

// CheckUser returns an error unless the user is a valid runtime ID, _publisher, _modules, _pruner or
// _reader.
func CheckUser(user string) error {
	switch user {
	case UserPublisher, UserModules, UserPruner, UserReader:
		return nil
	}
	return trust.CheckRuntimeID(user)
}

func checkSecret(secret trust.TokenSecret) error {
	if len(secret) < minSecret {
		return fmt.Errorf("token secret is %d bytes, must be at least %d", len(secret), minSecret)
	}
	return nil
}

// Password derives a user's registry password. Generations start at 1.
func Password(secret trust.TokenSecret, user string, generation int) (string, error) {
	if err := CheckUser(user); err != nil {
		return "", err
	}
	if err := checkSecret(secret); err != nil {
		return "", err
	}
	if generation < 1 {
		return "", fmt.Errorf("generation %d: must be at least 1", generation)
	}
	number := strconv.Itoa(generation)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(passwordLabel + "\n" + user + "\n" + number)) // no part can contain a line feed
	return passwordPrefix + "." + number + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// errRefused does not reveal whether the user or the password is wrong.
var errRefused = errors.New("invalid user or password, or the password was revoked")

// authenticate returns errRefused unless the password has at least the generation minGeneration. It returns the index
// of the secret that the password is derived from.
func authenticate(secrets trust.TokenSecrets, user, password string, minGeneration int) (int, error) {
	parts := strings.Split(password, ".")
	if len(parts) != 3 {
		return 0, errRefused
	}
	generation, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, errRefused
	}
	for i, secret := range secrets {
		want, err := Password(secret, user, generation)
		if err == nil && hmac.Equal([]byte(want), []byte(password)) && generation >= minGeneration {
			return i, nil
		}
	}
	return 0, errRefused
}
