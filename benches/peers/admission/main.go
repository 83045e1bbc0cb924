// The webhook for new claims on controller-runtime, written as its documentation shows.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type protector struct{ decoder admission.Decoder }

func (p protector) Handle(_ context.Context, request admission.Request) admission.Response {
	claim := &corev1.PersistentVolumeClaim{}
	if err := p.decoder.Decode(request, claim); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	controllerutil.AddFinalizer(claim, "kubernetes.io/pvc-protection")
	protected, err := json.Marshal(claim)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, protected)
}

// Arguments: the port on 127.0.0.1, and the directory of tls.crt and tls.key.
func main() {
	ctrl.SetLogger(zap.New())
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: os.Args[2]})
	protector := protector{admission.NewDecoder(scheme.Scheme)}
	server.Register("/claims", &webhook.Admission{Handler: protector})
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}
