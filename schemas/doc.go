// Package schemas is Weir's wire contract: send requests, the policy, status
// events with their decisions, record headers, ids, and the codecs that read
// and write them. Everything that crosses a topic, a socket or a file is
// defined here once, and JSON Schema, .proto, OpenAPI and SQL stand beside it.
//
// It decides nothing and does no IO.
package schemas
