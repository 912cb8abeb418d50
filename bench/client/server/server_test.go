package main

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/bench/client/resources"
	"github.com/xebec-proxy/xebec/bench/client/talk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client by hand asks for a cluster and acknowledges: the server
// counts its requests, and a change ends when the client has acknowledged
// it.
func TestServerCountsAndChanges(t *testing.T) {
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(1, in, out) }()
	q, a := json.NewEncoder(ask), json.NewDecoder(answers)
	exchange := func(do talk.Ask) (got talk.Traffic) {
		t.Helper()
		if err := q.Encode(do); err != nil {
			t.Fatal(err)
		}
		if err := a.Decode(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var hello talk.Traffic
	if err := a.Decode(&hello); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(hello.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var last *discoveryv3.DiscoveryResponse
	request := func() {
		err := stream.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: resources.ClusterType, ResourceNames: []string{resources.Name(0)},
			VersionInfo: last.GetVersionInfo(), ResponseNonce: last.GetNonce(),
		})
		if err != nil {
			t.Error(err)
		}
	}
	request()
	if last, err = stream.Recv(); err != nil {
		t.Fatal(err)
	}
	first := last.GetResources()[0].GetValue()
	request()
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		last, _ = stream.Recv()
		request()
	}()
	got := exchange(talk.Ask{Do: talk.Change, Times: 1})
	<-changed
	for end := time.Now().Add(5 * time.Second); got.Error == "" && got.Requests < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = exchange(talk.Ask{Do: talk.Counts}) // the last request is still on its way
	}
	if got.Error != "" || got.Requests != 3 || got.Sent < 3*len(resources.Name(0)) || got.Received < 2*len(first) {
		t.Errorf("counted %+v", got)
	}
	if string(last.GetResources()[0].GetValue()) == string(first) {
		t.Error("nothing has changed")
	}
	if got := exchange(talk.Ask{Do: "nothing"}); got.Error == "" {
		t.Error("an unknown request was answered")
	}
	_ = ask.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
