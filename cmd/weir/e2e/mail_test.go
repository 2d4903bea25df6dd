package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/smtp/smtptest"
	"github.com/weirhq/weir/schemas"
)

// TestMail is docs/alerts.md's example by e-mail, with a relay on loopback: a message
// is a letter there, under the id that Weir gave it, and so is an alert.
func TestMail(t *testing.T) {
	page, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## By e-mail\n")
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(rest)
	if block == nil || !strings.Contains(block[1], "host: smtp.example.com,") {
		t.Fatal("docs/alerts.md has no policy for e-mail any more")
	}
	relay := new(smtptest.Server).Start(t)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, []byte(relay.CA), 0o644); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(relay.Endpoint())
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(block[1], "host: smtp.example.com,", fmt.Sprintf("host: %s, port: %s, ca: %q,", host, port, "file:"+ca), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SMTP_PASSWORD", smtptest.Password)
	d := startDev(t, t.TempDir(), append([]string{"--policy", file}, anyPorts...)...)

	out := d.weir(t, "send", "--channel", "email", "--to", "Zoe@Bücher.example", "--subject", "Grüße 🙂", "--body", "Hallo", "--wait", "--json")
	var m struct {
		ID     string
		Status schemas.Status
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Status != schemas.StatusSent {
		t.Fatalf("%v %s", err, out)
	}
	letters := relay.Mails()
	if len(letters) != 1 {
		t.Fatalf("%d letters", len(letters))
	}
	l := letters[0]
	if ref, err := provider.ParseReference(l.EnvelopeID); err != nil || ref.MessageID != m.ID || l.To != "Zoe@xn--bcher-kva.example" || l.Header.Get("Message-Id") != "<"+m.ID+"@example.com>" || strings.TrimSpace(l.Text) != "Hallo" {
		t.Errorf("%v %s", err, l.Raw)
	}

	out = d.weir(t, "alerts", "test", "oncall")
	if !strings.Contains(out, "taken by provider mail (smtp)") {
		t.Error(out)
	}
	if !poll(t, 5*time.Second, func() bool { letters = relay.Mails(); return len(letters) > 0 }) {
		t.Fatal("no alert came")
	}
	if l := letters[0]; l.To != "oncall@example.com" || l.Header.Get("Subject") != "Weir: a test of the alert oncall" || !strings.Contains(l.Text, "Whoever reads this") {
		t.Errorf("%s", l.Raw)
	}
}
