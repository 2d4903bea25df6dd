package prometheus

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

func rulesAsk(t *testing.T, families map[string]*dto.MetricFamily) {}
