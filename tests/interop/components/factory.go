// What Jaeger's query needs of the package that knows all of Jaeger's databases.
package factory

import "github.com/jaegertracing/jaeger/internal/storage/v1/api/spanstore"

type ArchiveStorage struct {
	Reader spanstore.Reader
	Writer spanstore.Writer
}
