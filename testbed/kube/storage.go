package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	// provisionerName is what the testbed's StorageClass names.
	provisionerName = "testbed.foreshard.io/host-path"
	provisionedBy   = "pv.kubernetes.io/provisioned-by"
	selectedNode    = "volume.kubernetes.io/selected-node"
)

// storage makes, grows and removes volumes that are folders of the host.
//
// Kubernetes' own host-path provisioner makes folders that only root may write, in a fixed place under /tmp, and
// cannot grow them. All nodes of the testbed share the host's file system, so a volume follows its pod.
type storage struct {
	directory string
	client    kubernetes.Interface
	claims    corelisters.PersistentVolumeClaimLister
	volumes   corelisters.PersistentVolumeLister
	classes   storagelisters.StorageClassLister
}

func newStorageCommand() *cobra.Command {
	var kubeconfig, directory string
	command := &cobra.Command{
		Use:           "host-path-provisioner",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			return runStorage(command.Context(), client, directory)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "who to be and where the API server is")
	command.Flags().StringVar(&directory, "directory", "", "folder under which the volumes are made")
	return command
}

func runStorage(ctx context.Context, client kubernetes.Interface, directory string) error {
	// The context of a command run by component-base is nil when nobody set one.
	if ctx == nil {
		ctx = context.Background()
	}
	factory := informers.NewSharedInformerFactory(client, 10*time.Second)
	core := factory.Core().V1()
	s := storage{
		directory: directory,
		client:    client,
		claims:    core.PersistentVolumeClaims().Lister(),
		volumes:   core.PersistentVolumes().Lister(),
		classes:   factory.Storage().V1().StorageClasses().Lister(),
	}
	// One pending wake-up is enough: a pass looks at everything, and a testbed has few volumes.
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(any, any) { signal() },
		DeleteFunc: func(any) { signal() },
	}
	for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(), factory.Storage().V1().StorageClasses().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			s.pass(ctx)
		}
	}
}

// pass does whatever any claim or volume is waiting for. Failures are logged; the informers' resync brings another pass.
func (s storage) pass(ctx context.Context) {
	claims, _ := s.claims.List(labels.Everything())
	for _, claim := range claims {
		if err := s.serve(ctx, claim); err != nil {
			klog.ErrorS(err, "Could not serve claim", "claim", klog.KObj(claim))
		}
	}
	volumes, _ := s.volumes.List(labels.Everything())
	for _, volume := range volumes {
		if err := s.reclaim(ctx, volume); err != nil {
			klog.ErrorS(err, "Could not remove volume", "volume", volume.Name)
		}
	}
}

func (s storage) serve(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := s.classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != provisionerName {
		return nil
	}
	if claim.Spec.VolumeName == "" {
		waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		if waits && claim.Annotations[selectedNode] == "" {
			return nil
		}
		return s.provision(ctx, claim, class)
	}
	return s.grow(ctx, claim)
}

func (s storage) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	name := "pvc-" + string(claim.UID)
	if _, err := s.volumes.Get(name); err == nil {
		return nil
	}
	path := filepath.Join(s.directory, name)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	// Host-path volumes know no fsGroup, and stores do not run as root; the umask does not apply to chmod.
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	kind := corev1.HostPathDirectory
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: reclaim,
			StorageClassName:              class.Name,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
		},
	}
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	klog.InfoS("Made volume", "claim", klog.KObj(claim), "path", path, "err", err)
	return err
}

// grow plays the part of the external controller that enlarges a volume: the volume first, then the claim's status,
// so that a claim never promises more than its volume says it has.
func (s storage) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has, known := claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || !known || asked.Cmp(has) <= 0 {
		return nil
	}
	capacity := map[string]any{"capacity": map[string]string{"storage": asked.String()}}
	patch, err := json.Marshal(map[string]any{"spec": capacity})
	if err != nil {
		return err
	}
	if _, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("grow volume: %w", err)
	}
	patch, err = json.Marshal(map[string]any{"status": capacity})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	klog.InfoS("Grew volume", "claim", klog.KObj(claim), "to", asked.String(), "err", err)
	return err
}

func (s storage) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	ours := volume.Annotations[provisionedBy] == provisionerName && volume.Spec.HostPath != nil
	if !ours || volume.Status.Phase != corev1.VolumeReleased || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	// The name decides which folder goes, never a path somebody may have written into the object.
	if err := os.RemoveAll(filepath.Join(s.directory, filepath.Base(volume.Name))); err != nil {
		return err
	}
	err := s.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
