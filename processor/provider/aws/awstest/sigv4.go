// Package awstest checks what Amazon's services check of a request: its signature,
// version 4 ("Signature Version 4 signing process" of the AWS General Reference), made
// here from that page and not by the SDK.
package awstest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The account of tests.
const (
	Region = "eu-central-1"
	KeyID  = "AKIDEXAMPLE"
	Secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// Verify checks a request to a service with the account's secret.
func Verify(r *http.Request, body []byte, service, secret string, now time.Time) error {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return errors.New("no signature of version 4")
	}
	fields := map[string]string{}
	for f := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[k] = v
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || now.Sub(at).Abs() > 15*time.Minute {
		return fmt.Errorf("X-Amz-Date is %q", date)
	}
	scope := date[:8] + "/" + Region + "/" + service + "/aws4_request"
	if fields["Credential"] != KeyID+"/"+scope {
		return fmt.Errorf("the credential's scope is %q, want %q", fields["Credential"], scope)
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	if !slices.IsSorted(signed) {
		return errors.New("the signed headers are not in order")
	}
	for _, must := range []string{"host", "x-amz-date", "content-type"} {
		if !slices.Contains(signed, must) {
			return fmt.Errorf("%s is not signed", must)
		}
	}
	hash := sha256.Sum256(body)
	sum := hex.EncodeToString(hash[:])
	if given := r.Header.Get("X-Amz-Content-Sha256"); given != "" && given != sum {
		return errors.New("the body is not what its hash says")
	}
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.Query().Encode())
	for _, name := range signed {
		v := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			v = r.Host
		case "content-length":
			v = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.Join(strings.Fields(v), " "))
	}
	fmt.Fprintf(&canonical, "\n%s\n%s", fields["SignedHeaders"], sum)
	hash = sha256.Sum256([]byte(canonical.String()))
	key := []byte("AWS4" + secret)
	for _, part := range []string{date[:8], Region, service, "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hex.EncodeToString(hash[:])} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if fields["Signature"] != hex.EncodeToString(key) {
		return errors.New("the signature is another")
	}
	return nil
}
