package schemas

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the HTTP API, in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
