package client

import (
	"context"
	"net/http"
)

// StorageLocations gives the storage locations of profiles and inventory.
func (c *Client) StorageLocations(ctx context.Context) ([]StorageLocation, error) {
	a, err := get[StorageLocations](ctx, c, "/api/v1/storage", nil)
	return a.Locations, err
}

// AdoptLocation makes a directory the installation's own, also one that belonged to another installation, and gives it as it is afterwards.
func (c *Client) AdoptLocation(ctx context.Context, a Adoption) (StorageLocation, error) {
	return send[StorageLocation](ctx, c, http.MethodPost, "/api/v1/storage", nil, a)
}
