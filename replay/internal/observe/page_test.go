package observe

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A page counts rows by status, hides nothing of what a run's name holds, and gives its address back when it ends.
func TestPage(t *testing.T) {
	p, err := Listen("127.0.0.1:0", "a\"b\n")
	if err != nil {
		t.Fatal(err)
	}
	sent, first, tokens := int64(1e9), int64(1.03e9), int64(7)
	p.Row(&schemas.Request{Status: string(schemas.StatusOK), SentNS: &sent, FirstTokenNS: &first, CompletionTokens: &tokens})
	p.Row(&schemas.Request{Status: string(schemas.StatusTimeout), SentNS: &sent})
	p.Follow(func() State { return State{Planned: 9, InFlight: 2} })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(p.Address())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	const run = `{run="a\"b\n"`
	for _, want := range []string{
		"parley_turns_planned" + run + "} 9\n", "parley_requests_in_flight" + run + "} 2\n", "parley_turns_failed_total" + run + "} 1\n",
		"parley_turns_total" + run + `,status="ok"} 1` + "\n", "parley_turns_total" + run + `,status="timeout"} 1` + "\n",
		"parley_tokens_total" + run + `,type="output"} 7` + "\n",
		"parley_ttft_seconds_bucket" + run + `,le="0.02"} 0` + "\n", "parley_ttft_seconds_bucket" + run + `,le="0.05"} 1` + "\n",
		"parley_ttft_seconds_sum" + run + "} 0.03\n", "parley_ttft_seconds_count" + run + "} 1\n",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	address := p.listener.Addr().String()
	p.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the page still holds its address: %v", err)
	}
	l.Close()
}
