package aliyun

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const algorithm = "ACS3-HMAC-SHA256"

// request makes a signed request. SendSms has all of its parameters in the query
// (as Aliyun's own SDKs send them), so that there is no body.
func (c *client) request(params map[string]string) (*http.Request, error) {
	query := canonicalQuery(params)
	u := *c.address
	u.RawQuery = query
	req, err := http.NewRequest(http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	signed := map[string]string{
		"host":                  req.URL.Host,
		"x-acs-action":          action,
		"x-acs-version":         version,
		"x-acs-date":            c.now().UTC().Format("2006-01-02T15:04:05Z"),
		"x-acs-signature-nonce": c.nonce(),
		"x-acs-content-sha256":  hash(nil),
	}
	for name, v := range signed {
		if name != "host" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", authorization(c.key, c.secret, req.Method, u.Path, query, signed, signed["x-acs-content-sha256"]))
	return req, nil
}

// authorization is the header of that name. headers are by name in lower case, and
// all of them are signed. Source: "V3版本请求体&签名机制",
// https://help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
func authorization(key, secret, method, path, query string, headers map[string]string, bodyHash string) string {
	names := slices.Sorted(maps.Keys(headers))
	var lines strings.Builder
	for _, n := range names {
		lines.WriteString(n + ":" + strings.TrimSpace(headers[n]) + "\n")
	}
	list := strings.Join(names, ";")
	canonical := strings.Join([]string{method, path, query, lines.String(), list, bodyHash}, "\n")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(algorithm + "\n" + hash([]byte(canonical))))
	return algorithm + " Credential=" + key + ",SignedHeaders=" + list + ",Signature=" + hex.EncodeToString(mac.Sum(nil))
}

// canonicalQuery is the query that is both signed and sent: sorted by name, and
// escaped as RFC 3986 says.
func canonicalQuery(params map[string]string) string {
	pairs := make([]string, 0, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		pairs = append(pairs, escape(name)+"="+escape(params[name]))
	}
	return strings.Join(pairs, "&")
}

// escape differs from url.QueryEscape in the space only: that escapes everything
// but letters, digits and -_.~ too.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
