package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

// The page for clients shows this, as it stands here.
func ExampleClient_SendAndWait() {
	ctx := context.Background()

	c := client.New("https://weir.example", os.Getenv("WEIR_KEY"))
	sent, err := c.SendAndWait(ctx, &schemas.Request{Channel: "sms", To: "+8613800000000", Class: "verify", Body: "code 1"}, 2*time.Second)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Type == client.TypeQuotaExceeded {
		fmt.Println("limited by", p.ViolatedPolicies, "until", p.RetryAt)
	}

	_ = sent
}

func TestPageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(page), "```go\n")
	code, _, closed := strings.Cut(code, "```")
	if !found || !closed {
		t.Fatal("the page has no Go")
	}
	indented := ""
	for line := range strings.Lines(code) {
		indented += "\t" + line
	}
	if !strings.Contains(string(source), "\n\n"+indented+"\n") {
		t.Errorf("the page shows\n%s", indented)
	}
}
