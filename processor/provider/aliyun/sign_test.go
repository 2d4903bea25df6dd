package aliyun

import (
	"net/url"
	"testing"
)

// TestAuthorization: the vector of "V3版本请求体&签名机制", section 固定参数示例,
// https://help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
// and the one of Aliyun's SDK for Go, aliyun/darabonba-openapi-util,
// golang/service/service_test.go, Test_GetAuthorization (its two spellings of one
// header come to one line).
func TestAuthorization(t *testing.T) {
	for _, tt := range []struct {
		name, key, secret, method, path string
		query                           map[string]string
		headers                         map[string]string
		hash                            string
		want                            string
	}{
		{
			"the page", "YourAccessKeyId", "YourAccessKeySecret", "POST", "/",
			map[string]string{"RegionId": "cn-shanghai", "ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd"},
			map[string]string{
				"host": "ecs.cn-shanghai.aliyuncs.com", "x-acs-action": "RunInstances", "x-acs-version": "2014-05-26",
				"x-acs-date": "2023-10-26T10:22:32Z", "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
				"x-acs-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			},
			hash(nil),
			"ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-version,Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0",
		},
		{
			"the SDK", "acesskey", "secret", "", "/",
			map[string]string{"test": "ok", "empty": ""},
			map[string]string{"x-acs-test": "http,https"},
			"55e12e91650d2fec56ec74e1d3e4ddbfce2ef3a65890c2a19ecf88a307e76a23",
			"ACS3-HMAC-SHA256 Credential=acesskey,SignedHeaders=x-acs-test,Signature=4ab59fffe3c5738ff8a2729f90cc04fe18b02a4b15b2102cbaf92f9ff3df2ea3",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := authorization(tt.key, tt.secret, tt.method, tt.path, canonicalQuery(tt.query), tt.headers, tt.hash); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestEscape: "RFC3986 … 空格编码为%20, 星号编码为%2A, ~不编码" (the same page).
func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"a b*c~d/e+f": "a%20b%2Ac~d%2Fe%2Bf", "AZaz09-_.~": "AZaz09-_.~", "验": "%E9%AA%8C", `{"a":"b&c=d"}`: "%7B%22a%22%3A%22b%26c%3Dd%22%7D", "": "",
	} {
		if got := escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if back, err := url.QueryUnescape(escape(in)); err != nil || back != in {
			t.Errorf("%q comes back as %q, %v", in, back, err)
		}
	}
}
