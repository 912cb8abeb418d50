package clientstatus_test

import (
	"context"
	"errors"
	"net"
	"testing"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// serve makes a service and a client of it.
func serve(t *testing.T, d clientstatus.Describe) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	statusv3.RegisterClientStatusDiscoveryServiceServer(srv, clientstatus.New(d))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return statusv3.NewClientStatusDiscoveryServiceClient(conn)
}

// Proves XD-08, GC-68: Fetch answers once, and a stream each request; what was asked
// for is passed on; node matchers are refused.
func TestService(t *testing.T) {
	c := serve(t, func(_ context.Context, o clientstatus.Options) ([]*statusv3.ClientConfig, error) {
		scope := "whole"
		if o.ExcludeContents {
			scope = "bare"
		}
		return []*statusv3.ClientConfig{{ClientScope: scope}}, nil
	})
	r, err := c.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{})
	if err != nil || len(r.GetConfig()) != 1 || r.GetConfig()[0].GetClientScope() != "whole" {
		t.Errorf("%v, %v", r, err)
	}
	st, err := c.StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, bare := range []bool{true, false, true} {
		if err := st.Send(&statusv3.ClientStatusRequest{ExcludeResourceContents: bare}); err != nil {
			t.Fatal(err)
		}
		r, err := st.Recv()
		if err != nil || (r.GetConfig()[0].GetClientScope() == "bare") != bare {
			t.Errorf("%v, %v", r, err)
		}
	}
	matchers := &statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{}}}
	if _, err := c.FetchClientStatus(t.Context(), matchers); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with matchers: %v", err)
	}
	if err := st.Send(matchers); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with matchers, on the stream: %v", err)
	}
}

// What cannot be described, or would be too long, is an error.
func TestServiceFails(t *testing.T) {
	c := serve(t, func(_ context.Context, o clientstatus.Options) ([]*statusv3.ClientConfig, error) {
		if o.ExcludeContents {
			return nil, errors.New("no")
		}
		return []*statusv3.ClientConfig{{ClientScope: string(make([]byte, 33<<20))}}, nil
	})
	if _, err := c.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{ExcludeResourceContents: true}); err == nil {
		t.Error("no error")
	}
	if _, err := c.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	st, err := c.StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}
