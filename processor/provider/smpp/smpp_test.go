package smpp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/smpp/smpptest"
	"github.com/weirhq/weir/schemas"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  map[string]any
		want string
	}{
		{"no endpoint", map[string]any{"endpoint": nil}, "settings.endpoint is missing"},
		{"no port", map[string]any{"endpoint": "centre.example"}, "settings.endpoint must be host:port"},
		{"no name", map[string]any{"system_id": nil}, "settings.system_id is missing"},
		{"a password of nine octets", map[string]any{"password": "123456789"}, "settings.password may have 8 octets in SMPP v3.4"},
		{"an unknown alphabet", map[string]any{"alphabet": "utf8"}, "settings.alphabet must be one of gsm7, latin1"},
		{"an empty window", map[string]any{"window": 0}, "settings.window must be a whole number from 1 to 1000"},
		{"a certificate without TLS", map[string]any{"ca": "x"}, "settings.ca is for tls: true"},
		{"no certificate", map[string]any{"ca": "x", "tls": true}, "settings.ca holds no certificate in PEM"},
		{"a refusal that accepts", map[string]any{"map": map[string]any{"0x0b": "accepted"}}, "settings.map must be from a command_status"},
		{"a name that is none", map[string]any{"map": map[string]any{"ESME_X": "transient"}}, "settings.map must be from a command_status"},
		{"no zone", map[string]any{"receipt_timezone": "Mars/Olympus"}, "settings.receipt_timezone is no time zone"},
		{"a validity of a second", map[string]any{"validity_period": "1s"}, "settings.validity_period must be a duration from 1m0s"},
		{"another", map[string]any{"pasword": "x"}, "settings.pasword is not a setting of this type; did you mean password?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := map[string]any{"endpoint": "centre.example:2775", "system_id": "weir", "password": "x"}
			for k, v := range tt.set {
				if all[k] = v; v == nil {
					delete(all, k)
				}
			}
			in := provider.SettingsOf(schemas.Provider{Name: "p", Settings: all}, nil)
			readSettings(in)
			if err := in.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestCompose: what a submit_sm has of a message and of the settings.
func TestCompose(t *testing.T) {
	base := short{source: address{}, dest: address{1, 1, "8613800000000"}, registered: 1, message: []byte("x")}
	for _, tt := range []struct {
		name string
		set  map[string]any
		call provider.Call
		want func(*short)
		code string // of the refusal
	}{
		{"no sender", nil, provider.Call{}, func(*short) {}, ""},
		{"the provider's", map[string]any{"source_addr": "10690001"}, provider.Call{}, func(s *short) { s.source = address{0, 0, "10690001"} }, ""},
		{"the message's own", map[string]any{"source_addr": "10690001"}, provider.Call{From: "Weir"}, func(s *short) { s.source = address{5, 0, "Weir"} }, ""},
		{"a number", nil, provider.Call{From: "+15005550006"}, func(s *short) { s.source = address{1, 1, "15005550006"} }, ""},
		{"with a type and a plan", map[string]any{"source_ton": 3, "source_npi": 9, "dest_ton": 2, "dest_npi": 8}, provider.Call{From: "1069"}, func(s *short) { s.source, s.dest = address{3, 9, "1069"}, address{2, 8, "8613800000000"} }, ""},
		{"no receipts, and an hour and a half", map[string]any{"registered_delivery": 0, "validity_period": "90m"}, provider.Call{}, func(s *short) { s.registered, s.validity = 0, "000000013000000R" }, ""},
		{"three days", map[string]any{"validity_period": "72h"}, provider.Call{}, func(s *short) { s.validity = "000003000000000R" }, ""},
		{"a long sender", nil, provider.Call{From: strings.Repeat("1", 21)}, nil, "bad_sender"},
		{"a sender of two lines", nil, provider.Call{From: "a\nb"}, nil, "bad_sender"},
		{"no number", nil, provider.Call{To: "zoe@example.com"}, nil, "bad_recipient"},
		{"too long", map[string]any{"max_parts": 2}, provider.Call{Content: content.Content{Body: strings.Repeat("x", 307)}}, nil, "too_long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := map[string]any{"endpoint": "centre.example:2775", "system_id": "weir"}
			for k, v := range tt.set {
				all[k] = v
			}
			in := provider.SettingsOf(schemas.Provider{Settings: all}, nil)
			settings := readSettings(in)
			if err := in.Err(); err != nil {
				t.Fatal(err)
			}
			if tt.call.To == "" {
				tt.call.To = "+8613800000000"
			}
			if tt.call.Content.Body == "" {
				tt.call.Content.Body = "x"
			}
			bodies, o := settings.compose(&tt.call)
			if o.Code != tt.code {
				t.Fatalf("%+v, want code %q", o, tt.code)
			}
			if tt.code != "" {
				if o.Kind != provider.Permanent || o.MayBeReceived || bodies != nil {
					t.Errorf("%+v", o)
				}
				return
			}
			want := base
			tt.want(&want)
			if len(bodies) != 1 || !bytes.Equal(bodies[0], want.encode()) {
				t.Errorf("%q\nwant\n%q", bodies, want.encode())
			}
		})
	}
}

// TestCodes: every status that has a name has a row, and every row has a name.
func TestCodes(t *testing.T) {
	rows := 0
	for status, name := range statuses {
		if row, ok := codes.Of(name); !ok || smpptest.Status(name) != status {
			t.Errorf("%s is %#x, and has the row %+v", name, status, row)
		}
		rows++
	}
	if rows != len(codes.Send) {
		t.Errorf("%d names, and %d rows", rows, len(codes.Send))
	}
	for _, s := range states {
		if _, ok := codes.OfReceipt(s); !ok {
			t.Errorf("%s has no row", s)
		}
	}
	if got := codeOf(0x40a); got != "0x0000040A" {
		t.Error(got)
	}
}

// TestTLS: a centre whose certificate is of nobody known gets no password.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	centre := smpptest.ListenOn(t, l)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		ca   string
		want provider.Kind
	}{{"nobody known", "", provider.Transient}, {"known", "file:" + ca, provider.Accepted}} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := provider.Types{"smpp": Type}.Open(schemas.Provider{Name: "p", Type: "smpp", Settings: map[string]any{
				"endpoint": centre.Endpoint(), "system_id": smpptest.SystemID, "password": smpptest.Password, "tls": true, "ca": tt.ca,
			}}, provider.Deps{Private: outbound.Loopback})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if o := p.Send(t.Context(), &provider.Call{ID: "m", To: "+8613800000000", Content: content.Content{Body: "x"}}); o.Kind != tt.want {
				t.Errorf("%+v", o)
			}
			if wire := centre.Wire(); (tt.want != provider.Accepted) == strings.Contains(wire, smpptest.Password) {
				t.Errorf("on the wire:\n%s", wire)
			}
		})
	}
}
