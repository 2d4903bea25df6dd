package presets

import (
	"testing"

	"github.com/weirhq/weir/schemas"
)

func TestDev(t *testing.T) {
	doc, err := schemas.ParsePolicy("dev.yaml", Dev)
	if err != nil {
		t.Fatal(err)
	}
	p := &doc.Policy
	if len(p.Limits) != 2 || len(p.Providers) != 1 || len(p.Templates) != 1 {
		t.Errorf("dev has %d limits, %d providers, %d templates; want 2, 1, 1", len(p.Limits), len(p.Providers), len(p.Templates))
	}
	if got := p.Class("verify"); got.Priority != schemas.PriorityUrgent || got.ExpiresAfter.String() != "5m" || len(got.Retries) != 2 {
		t.Errorf("class verify is %+v", got)
	}
	for _, ch := range schemas.Channels {
		found := false
		for _, has := range p.Providers[0].Channels {
			found = found || has == ch
		}
		if !found {
			t.Errorf("nothing carries %s", ch)
		}
	}
	for _, tenant := range p.Tenants {
		if tenant.DefaultRegion != "" {
			t.Errorf("tenant %s reads numbers without a country code as those of %s: nobody asked for that", tenant.Name, tenant.DefaultRegion)
		}
	}
}
