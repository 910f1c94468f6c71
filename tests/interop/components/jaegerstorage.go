// Jaeger's storage extension with its storage in memory only: the databases that the original can use as well take
// longer to compile than everything else together. It stands in the original's place, under its name.
package jaegerstorage

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	storage "github.com/jaegertracing/jaeger/internal/storage/v1"
	memoryconfig "github.com/jaegertracing/jaeger/internal/storage/v1/memory"
	"github.com/jaegertracing/jaeger/internal/storage/v2/api/tracestore"
	"github.com/jaegertracing/jaeger/internal/storage/v2/memory"
	"github.com/jaegertracing/jaeger/internal/telemetry"
)

var ID = component.MustNewID("jaeger_storage")

type config struct {
	Backends map[string]struct {
		Memory memoryconfig.Configuration `mapstructure:"memory"`
	} `mapstructure:"backends"`
}

type stores struct {
	config   *config
	settings component.TelemetrySettings
	byName   map[string]tracestore.Factory
}

func (s *stores) Start(_ context.Context, host component.Host) error {
	for name, backend := range s.config.Backends {
		made, err := memory.NewFactory(backend.Memory, telemetry.FromOtelComponent(s.settings, host))
		if err != nil {
			return err
		}
		s.byName[name] = made
	}
	return nil
}

func (*stores) Shutdown(context.Context) error { return nil }

func NewFactory() extension.Factory {
	create := func(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
		return &stores{cfg.(*config), set.TelemetrySettings, map[string]tracestore.Factory{}}, nil
	}
	return extension.NewFactory(
		ID.Type(), func() component.Config { return &config{} }, create, component.StabilityLevelBeta,
	)
}

func GetTraceStoreFactory(name string, host component.Host) (tracestore.Factory, error) {
	if found, ok := host.GetExtensions()[ID].(*stores); ok && found.byName[name] != nil {
		return found.byName[name], nil
	}
	return nil, fmt.Errorf("there is no storage %q", name)
}

func GetMetricStorageFactory(name string, _ component.Host) (storage.MetricStoreFactory, error) {
	return nil, fmt.Errorf("there is no storage %q", name)
}
