package serviceconfig

import "github.com/stagepost/stagepost/format/schema"

// Schema gives the JSON Schema (Draft 2020-12) of a file of services, indented, as docs/services.schema.json has it.
// Editors use it to complete and check while one types.
func Schema() []byte {
	return schema.Text(SchemaID, "Stagepost compute services", "The services, and the agents that run their jobs.",
		describe(fileType, true))
}

// Read is that of a module without policies.
func Read(name string) (*Config, error) { return Module{}.Read(name) }

// ReadServer is that of a module without policies.
func ReadServer(name string) (*Config, error) { return Module{}.ReadServer(name) }

// Parse is that of a module without policies.
func Parse(text []byte) (*Config, error) { return Module{}.Parse(text) }
