package ses

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
)

// topic reads what Amazon SNS posts for one topic. A post is SNS's when its signature
// (version 1 or 2, "Verifying the signatures of Amazon SNS messages") was made by the
// key of a certificate that SNS's own host in the topic's region serves by HTTPS.
//
// The certificate comes alone, without those above it. What vouches for it is the
// host's TLS, checked to an authority that this machine trusts; besides, it must be
// for SNS and in its dates. AWS's own validators do the same.
type topic struct {
	arn    string
	host   string // of SNS in the topic's region
	names  []string
	logger *slog.Logger
	get    func(ctx context.Context, address string) (*outbound.Answer, error)
	now    func() time.Time

	fetching sync.Mutex // one certificate is fetched at a time

	mu     sync.Mutex
	keys   map[string]signer
	failed map[string]failure
}

type signer struct {
	key         *rsa.PublicKey
	from, until time.Time
}

type failure struct {
	at  time.Time
	err error
}

const (
	maxKeys   = 16
	forgetBad = time.Minute     // before an address is asked again that had no certificate
	getWithin = 5 * time.Second // SNS waits 15 seconds for an answer
	maxBody   = 512 << 10       // a message of SNS's has at most 256 KiB, escaped
)

var arnForm = regexp.MustCompile(`^arn:(aws|aws-cn|aws-us-gov):sns:([a-z0-9-]{3,30}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}$`)

// newTopic is of an ARN of arnForm.
func newTopic(arn string, logger *slog.Logger) *topic {
	m := arnForm.FindStringSubmatch(arn)
	region, suffix := m[2], "amazonaws.com"
	if m[1] == "aws-cn" {
		suffix += ".cn"
	}
	client := outbound.New(outbound.Config{Timeout: getWithin})
	return &topic{
		arn: arn, host: "sns." + region + "." + suffix, logger: logger, get: client.Get, now: time.Now,
		// The names in SNS's certificates: of the old regions, of those that are
		// switched on, and of China and GovCloud.
		names: []string{"sns." + suffix, "sns." + region + "." + suffix, "sns-signing." + region + "." + suffix, "sns-" + region + "." + suffix, "sns-us-gov-west-1." + suffix},
		keys:  make(map[string]signer), failed: make(map[string]failure),
	}
}

// post is the envelope of SNS.
type post struct {
	Type             string
	MessageID        string `json:"MessageId"`
	TopicArn         string
	Subject          *string
	Message          string
	Timestamp        string
	Token            string
	SubscribeURL     string
	SignatureVersion string
	Signature        string
	SigningCertURL   string
}

// read returns the text of a notification; empty when there was none to read.
func (t *topic) read(h *provider.Hook) (string, error) {
	var p post
	if len(h.Body) > maxBody || json.Unmarshal(h.Body, &p) != nil || p.TopicArn != t.arn {
		return "", provider.ErrForged
	}
	if err := t.verify(&p); err != nil {
		return "", err
	}
	switch p.Type {
	case "Notification":
		return p.Message, nil
	case "SubscriptionConfirmation":
		return "", t.confirm(&p)
	case "UnsubscribeConfirmation":
		t.logger.Warn("SNS no longer posts to this provider: the subscription was ended", "topic", t.arn)
	}
	return "", nil
}

// signed is what is signed: names and values by lines, in the order of the names.
func (p *post) signed() string {
	var b strings.Builder
	add := func(name, value string) { b.WriteString(name + "\n" + value + "\n") }
	add("Message", p.Message)
	add("MessageId", p.MessageID)
	if p.Type == "Notification" {
		if p.Subject != nil {
			add("Subject", *p.Subject)
		}
		add("Timestamp", p.Timestamp)
	} else {
		add("SubscribeURL", p.SubscribeURL)
		add("Timestamp", p.Timestamp)
		add("Token", p.Token)
	}
	add("TopicArn", p.TopicArn)
	add("Type", p.Type)
	return b.String()
}

// verified reports whether a key made the signature.
func (p *post) verified(key *rsa.PublicKey) bool {
	signature, err := base64.StdEncoding.DecodeString(p.Signature)
	if err != nil {
		return false
	}
	switch p.SignatureVersion {
	case "1":
		sum := sha1.Sum([]byte(p.signed()))
		return rsa.VerifyPKCS1v15(key, crypto.SHA1, sum[:], signature) == nil
	case "2":
		sum := sha256.Sum256([]byte(p.signed()))
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

var certPath = regexp.MustCompile(`^/[A-Za-z0-9_-]{1,100}\.pem$`)

// verify returns ErrForged for what is not SNS's, and another error when that could
// not be found out: SNS then posts again.
func (t *topic) verify(p *post) error {
	u, err := url.Parse(p.SigningCertURL)
	if err != nil || u.Scheme != "https" || u.Host != t.host || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !certPath.MatchString(u.Path) || u.RawPath != "" {
		return provider.ErrForged
	}
	s, err := t.signer("https://" + t.host + u.Path)
	if err != nil {
		return err
	}
	if now := t.now(); now.Before(s.from) || now.After(s.until) || !p.verified(s.key) {
		return provider.ErrForged
	}
	return nil
}

// signer is the key of a certificate, fetched once. What is known does not wait for
// what is fetched: anybody can name certificates that there are not.
func (t *topic) signer(address string) (signer, error) {
	s, known, err := t.known(address)
	if known {
		return s, err
	}
	t.fetching.Lock()
	defer t.fetching.Unlock()
	if s, known, err = t.known(address); known {
		return s, err
	}
	s, err = t.fetch(address)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if len(t.failed) >= maxKeys {
			clear(t.failed)
		}
		t.failed[address] = failure{t.now(), err}
		return signer{}, err
	}
	if len(t.keys) >= maxKeys {
		clear(t.keys)
	}
	t.keys[address] = s
	return s, nil
}

func (t *topic) known(address string) (signer, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.keys[address]; ok {
		return s, true, nil
	}
	if f, ok := t.failed[address]; ok && t.now().Sub(f.at) < forgetBad {
		return signer{}, true, f.err
	}
	return signer{}, false, nil
}

func (t *topic) fetch(address string) (signer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), getWithin)
	defer cancel()
	a, err := t.get(ctx, address)
	switch {
	case err != nil:
		return signer{}, fmt.Errorf("fetch the certificate of SNS: %w", err)
	case a.Code >= 500, a.Code == 429:
		return signer{}, fmt.Errorf("fetch the certificate of SNS: it answered %d", a.Code)
	case a.Code != 200:
		return signer{}, provider.ErrForged // there is no such certificate
	}
	block, rest := pem.Decode([]byte(a.Body))
	if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
		return signer{}, provider.ErrForged
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return signer{}, provider.ErrForged
	}
	named := false
	for _, name := range t.names {
		named = named || cert.VerifyHostname(name) == nil
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok || !named || key.N.BitLen() < 2048 {
		return signer{}, provider.ErrForged
	}
	return signer{key: key, from: cert.NotBefore, until: cert.NotAfter}, nil
}

// confirm calls the address with which SNS asks whether its posts are wanted. It is
// signed, and for the topic that the settings name: they are.
func (t *topic) confirm(p *post) error {
	u, err := url.Parse(p.SubscribeURL)
	if err != nil || u.Scheme != "https" || u.Host != t.host || u.User != nil || u.Path != "/" && u.Path != "" || u.Query().Get("Action") != "ConfirmSubscription" || u.Query().Get("TopicArn") != t.arn {
		return provider.ErrForged
	}
	ctx, cancel := context.WithTimeout(context.Background(), getWithin)
	defer cancel()
	a, err := t.get(ctx, u.String())
	switch {
	case err != nil:
		return fmt.Errorf("confirm the subscription to %s: %w", t.arn, err)
	case a.Code != 200:
		return fmt.Errorf("confirm the subscription to %s: SNS answered %d", t.arn, a.Code)
	}
	t.logger.Info("the subscription to the SNS topic is confirmed", "topic", t.arn)
	return nil
}
