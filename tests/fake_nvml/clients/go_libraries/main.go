// Command go-libraries prints, as JSON, what NVIDIA's Go libraries find on a node: those that its device plugin, feature
// discovery and DRA driver are made of.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvlib/pkg/nvpci"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type card struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Brand        string `json:"brand"`
	CUDA         string `json:"cuda"`
	HasMIG       bool   `json:"has_mig"`
}

type node struct {
	Cards     []card         `json:"cards"`
	Links     map[string]int `json:"links"`
	Chosen    [][]int        `json:"chosen"`
	Addresses []string       `json:"addresses"`
	Numa      []int          `json:"numa"`
	Is3D      []bool         `json:"is_3d"`
}

func main() {
	found, err := look()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func look() (*node, error) {
	found := &node{Links: map[string]int{}}
	library := nvml.New()
	if code := library.Init(); code != nvml.SUCCESS {
		return nil, fmt.Errorf("init: %v", code)
	}
	err := device.New(library).VisitDevices(func(_ int, one device.Device) error { return found.visit(one) })
	if err != nil {
		return nil, fmt.Errorf("visit: %w", err)
	}
	// The libraries below begin and end NVML themselves.
	if code := library.Shutdown(); code != nvml.SUCCESS {
		return nil, fmt.Errorf("shutdown: %v", code)
	}
	if err := found.choose(); err != nil {
		return nil, fmt.Errorf("choose: %w", err)
	}
	return found, found.lookAtBus()
}

func (n *node) visit(one device.Device) error {
	name, _ := one.GetName()
	architecture, err := one.GetArchitectureAsString()
	if err != nil {
		return err
	}
	brand, err := one.GetBrandAsString()
	if err != nil {
		return err
	}
	cuda, err := one.GetCudaComputeCapabilityAsString()
	if err != nil {
		return err
	}
	hasMIG, err := one.IsMigCapable()
	n.Cards = append(n.Cards, card{name, architecture, brand, cuda, hasMIG})
	return err
}

// choose takes two cards as often as there are two, as the device plugin prefers them.
func (n *node) choose() error {
	cards, err := gpuallocator.NewDevices()
	if err != nil {
		return err
	}
	for _, one := range cards {
		for other, links := range one.Links {
			for _, link := range links {
				n.Links[fmt.Sprintf("%d-%d %s", one.Index, other, link.Type)]++
			}
		}
	}
	policy, left := gpuallocator.NewBestEffortPolicy(), cards
	for len(left) >= 2 {
		taken := []int{}
		for _, one := range policy.Allocate(left, nil, 2) {
			taken = append(taken, one.Index)
		}
		sort.Ints(taken)
		rest := gpuallocator.DeviceList{}
		for _, one := range left {
			if one.Index != taken[0] && one.Index != taken[1] {
				rest = append(rest, one)
			}
		}
		n.Chosen, left = append(n.Chosen, taken), rest
	}
	return nil
}

func (n *node) lookAtBus() error {
	cards, err := nvpci.New().GetGPUs()
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	for _, one := range cards {
		n.Addresses, n.Numa = append(n.Addresses, one.Address), append(n.Numa, one.NumaNode)
		n.Is3D = append(n.Is3D, one.Is3DController())
	}
	return nil
}
