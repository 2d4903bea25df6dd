package tencent

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	algorithm   = "TC3-HMAC-SHA256"
	contentType = "application/json; charset=utf-8"
)

// request makes a signed request.
func (c *client) request(m message) (*http.Request, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	// The last byte is the one that makes the body whole: see httpcall.
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	req, err := http.NewRequest(http.MethodPost, c.address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	now := c.now()
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-TC-Action", action)
	req.Header.Set("X-TC-Version", version)
	req.Header.Set("X-TC-Region", c.region)
	req.Header.Set("X-TC-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Authorization", authorization(c.id, c.key, service, now, map[string]string{
		"content-type": contentType, "host": req.URL.Host, "x-tc-action": action,
	}, body))
	return req, nil
}

// authorization is the header of that name for a POST of body to the root. headers
// are by name in lower case, and all of them are signed. Source: "签名方法 v3",
// https://www.tencentcloud.com/zh/document/product/1021/34193
func authorization(id, key, service string, now time.Time, headers map[string]string, body []byte) string {
	names := slices.Sorted(maps.Keys(headers))
	var lines strings.Builder
	for _, n := range names {
		lines.WriteString(n + ":" + strings.ToLower(strings.TrimSpace(headers[n])) + "\n")
	}
	list := strings.Join(names, ";")
	canonical := "POST\n/\n\n" + lines.String() + "\n" + list + "\n" + hash(body)
	day := now.UTC().Format(time.DateOnly)
	scope := day + "/" + service + "/tc3_request"
	signing := []byte("TC3" + key)
	for _, part := range []string{day, service, "tc3_request"} {
		signing = keyed(signing, part)
	}
	signature := keyed(signing, algorithm+"\n"+strconv.FormatInt(now.Unix(), 10)+"\n"+scope+"\n"+hash([]byte(canonical)))
	return algorithm + " Credential=" + id + "/" + scope + ", SignedHeaders=" + list + ", Signature=" + hex.EncodeToString(signature)
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
