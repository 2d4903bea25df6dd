package tencent

import (
	"testing"
	"time"
)

// TestAuthorization: the vector of "签名方法 v3", with its steps,
// https://www.tencentcloud.com/zh/document/product/1021/34193 (the same page stands in
// the documentation of each product; newer editions hide the example's keys).
func TestAuthorization(t *testing.T) {
	body := `{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}`
	if got, want := hash([]byte(body)), "35e9c5b0e3ae67532d3c9f17ead6c90222632e5b1ff7f6e89887f1398934f064"; got != want {
		t.Errorf("the body's hash is %s, want %s", got, want)
	}
	got := authorization("AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE", "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE", "cvm", time.Unix(1551113065, 0),
		map[string]string{"content-type": "application/json; charset=utf-8", "host": "cvm.tencentcloudapi.com"}, []byte(body))
	want := "TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request, SignedHeaders=content-type;host, Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestTheDayIsUTC: in the east it is tomorrow already, and a signature with that day
// fails (the same page says so).
func TestTheDayIsUTC(t *testing.T) {
	now := time.Date(2026, 11, 22, 1, 0, 0, 0, shanghai)
	a := authorization("id", "key", "sms", now, map[string]string{"host": "h"}, nil)
	b := authorization("id", "key", "sms", now.UTC(), map[string]string{"host": "h"}, nil)
	if a != b || a[len("TC3-HMAC-SHA256 Credential=id/"):][:10] != "2026-11-21" {
		t.Errorf("%s\n%s", a, b)
	}
}
