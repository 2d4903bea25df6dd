package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// Check judges what the policy says of its providers by their types: their settings,
// and what templates say of them (templates[].providers). It reads no secret and opens
// nothing. Its error is a schemas.PolicyErrors, with paths such as
// providers[0].settings.url. What names a provider that the policy lacks, or a type
// that this program lacks, is others' to refuse.
func (t Types) Check(p *schemas.Policy) error {
	if errs := append(t.settings(p), t.templates(p)...); len(errs) > 0 {
		return errs
	}
	return nil
}

func (t Types) settings(p *schemas.Policy) (errs schemas.PolicyErrors) {
	for i := range p.Providers {
		typ := t[p.Providers[i].Type]
		if typ.Check == nil {
			continue
		}
		in := Stated(p.Providers[i])
		typ.Check(in)
		for _, m := range in.mistakes() {
			errs = append(errs, schemas.PolicyError{
				Path:    schemas.ProviderSettingPath(i, m.setting),
				Message: strings.TrimPrefix(m.err.Error(), "settings."+m.setting+" "),
			})
		}
	}
	return errs
}

func (t Types) templates(p *schemas.Policy) (errs schemas.PolicyErrors) {
	for i := range p.Templates {
		own := p.Templates[i].Providers
		for _, name := range slices.Sorted(maps.Keys(own)) {
			pr, ok := p.Provider(name)
			if !ok {
				continue
			}
			typ, ok := t[pr.Type]
			if !ok {
				continue
			}
			var err error
			if typ.Template == nil {
				err = fmt.Errorf("says something of %s, whose type %s has no templates of its own: leave it out, and give the template a body", name, pr.Type)
			} else {
				err = typ.Template(own[name])
			}
			if err != nil {
				errs = append(errs, schemas.PolicyError{Path: schemas.TemplateProviderPath(i, name), Message: err.Error()})
			}
		}
	}
	return errs
}
