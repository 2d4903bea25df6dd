package provider_test

import (
	"testing"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

func TestUnknownType(t *testing.T) {
	_, err := provider.Types{"a": {}, "b": {}}.Open(schemas.Provider{Name: "p", Type: "c"}, provider.Deps{Private: outbound.Loopback})
	if err == nil || err.Error() != `provider p: type "c" is none of a, b` {
		t.Error(err)
	}
}
