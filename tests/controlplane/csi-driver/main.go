// A CSI driver without nodes, on a unix socket: a volume is a directory.
//
// It writes one line of JSON for each call that concerns a volume, and fails the calls of a method
// while a file names the method.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The handle of a volume is not its name, so that a test cannot confuse the two.
const handlePrefix = "disk-of-"

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	name, root, failing string
}

func main() {
	name := flag.String("name", "", "the name of the driver")
	socket := flag.String("socket", "", "the unix socket to serve")
	root := flag.String("root", "", "the directory of the volumes")
	calls := flag.String("calls", "", "the file of the calls")
	failing := flag.String("failing", "", "the file with the methods that fail")
	flag.Parse()
	if err := serve(driver{name: *name, root: *root, failing: *failing}, *socket, *calls); err != nil {
		log.Fatal(err)
	}
}

func serve(d driver, socket, calls string) error {
	file, err := os.OpenFile(calls, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// Of a driver that was killed.
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.recorded(file)))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	return server.Serve(listener)
}

type call struct {
	Method string    `json:"method"`
	Volume string    `json:"volume"`
	Time   time.Time `json:"time"`
	Failed bool      `json:"failed"`
}

// recorded writes a line for a call before it is answered.
func (d driver) recorded(file *os.File) grpc.UnaryServerInterceptor {
	var lock sync.Mutex
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
		volume := handleOf(request)
		if volume == "" {
			return next(ctx, request)
		}
		answer, err := any(nil), d.failure(method)
		if err == nil {
			answer, err = next(ctx, request)
		}
		lock.Lock()
		defer lock.Unlock()
		if writing := json.NewEncoder(file).Encode(call{method, volume, time.Now(), err != nil}); writing != nil {
			return nil, status.Error(codes.Internal, writing.Error())
		}
		return answer, err
	}
}

// handleOf returns the handle of the volume that the request concerns.
func handleOf(request any) string {
	switch request := request.(type) {
	case *csi.CreateVolumeRequest:
		return handlePrefix + request.GetName()
	case interface{ GetVolumeId() string }:
		return request.GetVolumeId()
	}
	return ""
}

func (d driver) failure(method string) error {
	failing, err := os.ReadFile(d.failing)
	if err != nil && !os.IsNotExist(err) {
		return status.Error(codes.Internal, err.Error())
	}
	if slices.Contains(strings.Fields(string(failing)), method) {
		return status.Error(codes.Internal, "the storage is out of order")
	}
	return nil
}

func (d driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	capability := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{capability}}, nil
}

func (d driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return answer, nil
}

func (d driver) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	handle := handleOf(request)
	if err := os.MkdirAll(d.directory(handle), 0o700); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	volume := &csi.Volume{VolumeId: handle, CapacityBytes: request.GetCapacityRange().GetRequiredBytes()}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (d driver) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := os.RemoveAll(d.directory(request.GetVolumeId())); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (d driver) ControllerPublishVolume(_ context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if _, err := os.Stat(d.directory(request.GetVolumeId())); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &csi.ControllerPublishVolumeResponse{}, nil
}

func (d driver) ControllerUnpublishVolume(context.Context, *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// directory never leaves the root, whatever the handle is.
func (d driver) directory(handle string) string {
	return filepath.Join(d.root, filepath.Base(handle))
}
