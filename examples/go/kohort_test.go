package billing

// Starts `kohort serve --test` for a test, and asks it for what the test needs. Copy this file into your project.
//
// The command is looked for on the PATH; the environment variable KOHORT can name another one. All controls are in
// docs/test-control.openapi.yaml: Get and Post reach those that have no method of their own here.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"
)

type Kohort struct {
	BootstrapServers string `json:"bootstrap_servers"`
	HTTP             string `json:"http"`

	t testing.TB
}

type Member struct {
	MemberID string `json:"member_id"`
	ClientID string `json:"client_id"`
}

type Group struct {
	State      string                      `json:"state"`
	Generation int                         `json:"generation"`
	Members    []Member                    `json:"members"`
	Committed  map[string]map[string]int64 `json:"committed"` // topic, partition
}

type Commit struct {
	MemberID   string `json:"member_id"`
	Generation int    `json:"generation"`
	Topic      string `json:"topic"`
	Partition  int    `json:"partition"`
	Offset     int64  `json:"offset"`
}

type JSON map[string]any

// StartKohort starts a broker that ends with the test. Settings are Kafka's, like "num.partitions=6".
func StartKohort(t testing.TB, settings ...string) *Kohort {
	t.Helper()
	arguments := []string{"serve", "--test", "--print-json", "--stop-with-stdin", "--log-level", "warning"}
	for _, setting := range settings {
		arguments = append(arguments, "--override", setting)
	}
	name := os.Getenv("KOHORT")
	if name == "" {
		name = "kohort"
	}
	command := exec.Command(name, arguments...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe() // the broker stops when it ends, so it also stops if this process is killed
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		stdin.Close()
		command.Wait()
	})
	kohort := &Kohort{t: t}
	must(t, json.NewDecoder(stdout).Decode(kohort))
	return kohort
}

func (k *Kohort) CreateTopic(topic string, partitions int) {
	k.t.Helper()
	k.Post("/test/topics", JSON{"topic": topic, "partitions": partitions}, nil)
}

func (k *Kohort) Produce(topic string, values ...string) {
	k.t.Helper()
	var records []JSON
	for _, value := range values {
		records = append(records, JSON{"value": value})
	}
	k.Post("/test/topics/"+url.PathEscape(topic)+"/records", JSON{"records": records}, nil)
}

func (k *Kohort) Group(group string) (found Group) {
	k.t.Helper()
	k.Get("/test/groups/"+url.PathEscape(group), &found)
	return found
}

func (k *Kohort) Commits(group string) []Commit {
	k.t.Helper()
	var found struct{ Commits []Commit }
	k.Get("/test/groups/"+url.PathEscape(group)+"/commits", &found)
	return found.Commits
}

// Wait waits until the group is as wanted, like {"state": "Stable", "members": 2}.
func (k *Kohort) Wait(group string, wanted JSON) (found Group) {
	k.t.Helper()
	k.Post("/test/groups/"+url.PathEscape(group)+"/wait", wanted, &found)
	return found
}

func (k *Kohort) Rebalance(group, reason string) {
	k.t.Helper()
	k.Post("/test/groups/"+url.PathEscape(group)+"/rebalance", JSON{"reason": reason}, nil)
}

func (k *Kohort) Expire(group, memberID string) {
	k.t.Helper()
	k.Post("/test/groups/"+url.PathEscape(group)+"/expire", JSON{"member_id": memberID}, nil)
}

func (k *Kohort) Fault(fault JSON) {
	k.t.Helper()
	k.Post("/test/faults", fault, nil)
}

func (k *Kohort) Get(path string, found any) {
	k.t.Helper()
	k.ask("GET", path, nil, found)
}

func (k *Kohort) Post(path string, body, found any) {
	k.t.Helper()
	k.ask("POST", path, body, found)
}

func (k *Kohort) ask(method, path string, body, found any) {
	k.t.Helper()
	sent, err := json.Marshal(body)
	must(k.t, err)
	request, err := http.NewRequest(method, k.HTTP+path, bytes.NewReader(sent))
	must(k.t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must(k.t, err)
	defer answer.Body.Close()
	if answer.StatusCode >= 400 {
		var problem struct{ Error string }
		must(k.t, json.NewDecoder(answer.Body).Decode(&problem))
		must(k.t, fmt.Errorf("%s %s: %s", method, path, problem.Error))
	}
	if found != nil {
		must(k.t, json.NewDecoder(answer.Body).Decode(found))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
