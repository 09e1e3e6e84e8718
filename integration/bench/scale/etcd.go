package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// etcdGateway is a client of etcd's JSON API.
type etcdGateway struct{ address string }

func (e etcdGateway) ask(ctx context.Context, path string, question, answer any) error {
	data, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	response, err := localClient.Do(request)
	if err != nil {
		return fmt.Errorf("send the request to etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("request %s to etcd: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

type keyValue struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

func (e etcdGateway) get(ctx context.Context, key []byte) ([]byte, error) {
	var found struct{ KVs []keyValue }
	if err := e.ask(ctx, "/v3/kv/range", keyValue{Key: key}, &found); err != nil {
		return nil, err
	}
	if len(found.KVs) != 1 {
		return nil, errors.New("etcd does not contain key " + string(key))
	}
	return found.KVs[0].Value, nil
}

func (e etcdGateway) put(ctx context.Context, key, value []byte) error {
	return e.ask(ctx, "/v3/kv/put", keyValue{key, value}, &struct{}{})
}
