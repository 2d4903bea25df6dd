package twilio

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
)

// Sign is what Twilio's X-Twilio-Signature would be.
func Sign(token, address string, form url.Values) string {
	return base64.StdEncoding.EncodeToString(sign(token, address, form))
}

// Decide is what an answer means.
func Decide(status int, header http.Header, body string) provider.Outcome {
	return decide(&httpcall.Answer{Status: status, Header: header, Body: []byte(body)}, time.Time{})
}
