package provider

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/weir/schemas"
)

// CheckTemplates judges what the policy's templates say of its providers
// (templates[].providers) by the providers' types. Its error is a
// schemas.PolicyErrors, with paths such as templates[0].providers.aliyun. What names a
// provider that the policy lacks, or a type that this program lacks, is others' to
// refuse.
func (t Types) CheckTemplates(p *schemas.Policy) error {
	var errs schemas.PolicyErrors
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
	if len(errs) > 0 {
		return errs
	}
	return nil
}
