# Generated from messages.proto by scripts/generate-containerd: do not edit.
# ruff: noqa
# fmt: off
# mypy: disable-error-code="type-arg"
# -*- coding: utf-8 -*-
# NO CHECKED-IN PROTOBUF GENCODE
# source: schedkit/runtimes/containerd/messages.proto
# Protobuf Python Version: 7.35.1
"""Generated protocol buffer code."""
from google.protobuf import descriptor as _descriptor
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf import runtime_version as _runtime_version
from google.protobuf import symbol_database as _symbol_database
from google.protobuf.internal import builder as _builder
_runtime_version.ValidateProtobufRuntimeVersion(
    _runtime_version.Domain.PUBLIC,
    7,
    35,
    1,
    '',
    'schedkit/runtimes/containerd/messages.proto'
)
# @@protoc_insertion_point(imports)

_sym_db = _symbol_database.Default()


from google.protobuf import any_pb2 as google_dot_protobuf_dot_any__pb2
from google.protobuf import field_mask_pb2 as google_dot_protobuf_dot_field__mask__pb2
from google.protobuf import timestamp_pb2 as google_dot_protobuf_dot_timestamp__pb2


DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(b'\n+schedkit/runtimes/containerd/messages.proto\x12\x1cschedkit.runtimes.containerd\x1a\x19google/protobuf/any.proto\x1a google/protobuf/field_mask.proto\x1a\x1fgoogle/protobuf/timestamp.proto\"\xc2\x01\n\nDescriptor\x12\x12\n\nmedia_type\x18\x01 \x01(\t\x12\x0e\n\x06\x64igest\x18\x02 \x01(\t\x12\x0c\n\x04size\x18\x03 \x01(\x03\x12N\n\x0b\x61nnotations\x18\x05 \x03(\x0b\x32\x39.schedkit.runtimes.containerd.Descriptor.AnnotationsEntry\x1a\x32\n\x10\x41nnotationsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"F\n\x05Mount\x12\x0c\n\x04type\x18\x01 \x01(\t\x12\x0e\n\x06source\x18\x02 \x01(\t\x12\x0e\n\x06target\x18\x03 \x01(\t\x12\x0f\n\x07options\x18\x04 \x03(\t\"\"\n\x0fVersionResponse\x12\x0f\n\x07version\x18\x01 \x01(\t\"!\n\x0ePluginsRequest\x12\x0f\n\x07\x66ilters\x18\x01 \x03(\t\"H\n\x0fPluginsResponse\x12\x35\n\x07plugins\x18\x01 \x03(\x0b\x32$.schedkit.runtimes.containerd.Plugin\"_\n\x06Plugin\x12\x0c\n\x04type\x18\x01 \x01(\t\x12\n\n\x02id\x18\x02 \x01(\t\x12;\n\x08init_err\x18\x07 \x01(\x0b\x32).schedkit.runtimes.containerd.PluginError\",\n\x0bPluginError\x12\x0c\n\x04\x63ode\x18\x01 \x01(\x05\x12\x0f\n\x07message\x18\x02 \x01(\t\"\x9d\x01\n\x12\x43reateLeaseRequest\x12\n\n\x02id\x18\x01 \x01(\t\x12L\n\x06labels\x18\x03 \x03(\x0b\x32<.schedkit.runtimes.containerd.CreateLeaseRequest.LabelsEntry\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"\x15\n\x13\x43reateLeaseResponse\".\n\x12\x44\x65leteLeaseRequest\x12\n\n\x02id\x18\x01 \x01(\t\x12\x0c\n\x04sync\x18\x02 \x01(\x08\")\n\rLeaseResource\x12\n\n\x02id\x18\x01 \x01(\t\x12\x0c\n\x04type\x18\x02 \x01(\t\"d\n\x17\x41\x64\x64LeaseResourceRequest\x12\n\n\x02id\x18\x01 \x01(\t\x12=\n\x08resource\x18\x02 \x01(\x0b\x32+.schedkit.runtimes.containerd.LeaseResource\"\xa1\x01\n\x0b\x43ontentInfo\x12\x0e\n\x06\x64igest\x18\x01 \x01(\t\x12\x0c\n\x04size\x18\x02 \x01(\x03\x12\x45\n\x06labels\x18\x05 \x03(\x0b\x32\x35.schedkit.runtimes.containerd.ContentInfo.LabelsEntry\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"$\n\x12\x43ontentInfoRequest\x12\x0e\n\x06\x64igest\x18\x01 \x01(\t\"N\n\x13\x43ontentInfoResponse\x12\x37\n\x04info\x18\x01 \x01(\x0b\x32).schedkit.runtimes.containerd.ContentInfo\"\x80\x01\n\x14UpdateContentRequest\x12\x37\n\x04info\x18\x01 \x01(\x0b\x32).schedkit.runtimes.containerd.ContentInfo\x12/\n\x0bupdate_mask\x18\x02 \x01(\x0b\x32\x1a.google.protobuf.FieldMask\"P\n\x15UpdateContentResponse\x12\x37\n\x04info\x18\x01 \x01(\x0b\x32).schedkit.runtimes.containerd.ContentInfo\"B\n\x12ReadContentRequest\x12\x0e\n\x06\x64igest\x18\x01 \x01(\t\x12\x0e\n\x06offset\x18\x02 \x01(\x03\x12\x0c\n\x04size\x18\x03 \x01(\x03\"3\n\x13ReadContentResponse\x12\x0e\n\x06offset\x18\x01 \x01(\x03\x12\x0c\n\x04\x64\x61ta\x18\x02 \x01(\x0c\"\x9c\x01\n\x13WriteContentRequest\x12\x39\n\x06\x61\x63tion\x18\x01 \x01(\x0e\x32).schedkit.runtimes.containerd.WriteAction\x12\x0b\n\x03ref\x18\x02 \x01(\t\x12\r\n\x05total\x18\x03 \x01(\x03\x12\x10\n\x08\x65xpected\x18\x04 \x01(\t\x12\x0e\n\x06offset\x18\x05 \x01(\x03\x12\x0c\n\x04\x64\x61ta\x18\x06 \x01(\x0c\"\x80\x01\n\x14WriteContentResponse\x12\x39\n\x06\x61\x63tion\x18\x01 \x01(\x0e\x32).schedkit.runtimes.containerd.WriteAction\x12\x0e\n\x06offset\x18\x04 \x01(\x03\x12\r\n\x05total\x18\x05 \x01(\x03\x12\x0e\n\x06\x64igest\x18\x06 \x01(\t\"\x1b\n\x0c\x41\x62ortRequest\x12\x0b\n\x03ref\x18\x01 \x01(\t\"\xbf\x01\n\x05Image\x12\x0c\n\x04name\x18\x01 \x01(\t\x12?\n\x06labels\x18\x02 \x03(\x0b\x32/.schedkit.runtimes.containerd.Image.LabelsEntry\x12\x38\n\x06target\x18\x03 \x01(\x0b\x32(.schedkit.runtimes.containerd.Descriptor\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"\x1f\n\x0fGetImageRequest\x12\x0c\n\x04name\x18\x01 \x01(\t\"F\n\x10GetImageResponse\x12\x32\n\x05image\x18\x01 \x01(\x0b\x32#.schedkit.runtimes.containerd.Image\"H\n\x12\x43reateImageRequest\x12\x32\n\x05image\x18\x01 \x01(\x0b\x32#.schedkit.runtimes.containerd.Image\"I\n\x13\x43reateImageResponse\x12\x32\n\x05image\x18\x01 \x01(\x0b\x32#.schedkit.runtimes.containerd.Image\"y\n\x12UpdateImageRequest\x12\x32\n\x05image\x18\x01 \x01(\x0b\x32#.schedkit.runtimes.containerd.Image\x12/\n\x0bupdate_mask\x18\x02 \x01(\x0b\x32\x1a.google.protobuf.FieldMask\"I\n\x13UpdateImageResponse\x12\x32\n\x05image\x18\x01 \x01(\x0b\x32#.schedkit.runtimes.containerd.Image\"0\n\x12\x44\x65leteImageRequest\x12\x0c\n\x04name\x18\x01 \x01(\t\x12\x0c\n\x04sync\x18\x02 \x01(\x08\"$\n\x11ListImagesRequest\x12\x0f\n\x07\x66ilters\x18\x01 \x03(\t\"I\n\x12ListImagesResponse\x12\x33\n\x06images\x18\x01 \x03(\x0b\x32#.schedkit.runtimes.containerd.Image\"{\n\x0c\x41pplyRequest\x12\x36\n\x04\x64iff\x18\x01 \x01(\x0b\x32(.schedkit.runtimes.containerd.Descriptor\x12\x33\n\x06mounts\x18\x02 \x03(\x0b\x32#.schedkit.runtimes.containerd.Mount\"J\n\rApplyResponse\x12\x39\n\x07\x61pplied\x18\x01 \x01(\x0b\x32(.schedkit.runtimes.containerd.Descriptor\"\xcb\x01\n\x16PrepareSnapshotRequest\x12\x13\n\x0bsnapshotter\x18\x01 \x01(\t\x12\x0b\n\x03key\x18\x02 \x01(\t\x12\x0e\n\x06parent\x18\x03 \x01(\t\x12P\n\x06labels\x18\x04 \x03(\x0b\x32@.schedkit.runtimes.containerd.PrepareSnapshotRequest.LabelsEntry\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"N\n\x17PrepareSnapshotResponse\x12\x33\n\x06mounts\x18\x01 \x03(\x0b\x32#.schedkit.runtimes.containerd.Mount\"9\n\x15SnapshotMountsRequest\x12\x13\n\x0bsnapshotter\x18\x01 \x01(\t\x12\x0b\n\x03key\x18\x02 \x01(\t\"M\n\x16SnapshotMountsResponse\x12\x33\n\x06mounts\x18\x01 \x03(\x0b\x32#.schedkit.runtimes.containerd.Mount\"\xc7\x01\n\x15\x43ommitSnapshotRequest\x12\x13\n\x0bsnapshotter\x18\x01 \x01(\t\x12\x0c\n\x04name\x18\x02 \x01(\t\x12\x0b\n\x03key\x18\x03 \x01(\t\x12O\n\x06labels\x18\x04 \x03(\x0b\x32?.schedkit.runtimes.containerd.CommitSnapshotRequest.LabelsEntry\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"9\n\x15RemoveSnapshotRequest\x12\x13\n\x0bsnapshotter\x18\x01 \x01(\t\x12\x0b\n\x03key\x18\x02 \x01(\t\"7\n\x13StatSnapshotRequest\x12\x13\n\x0bsnapshotter\x18\x01 \x01(\t\x12\x0b\n\x03key\x18\x02 \x01(\t\"\x16\n\x14StatSnapshotResponse\"\xf4\x02\n\tContainer\x12\n\n\x02id\x18\x01 \x01(\t\x12\x43\n\x06labels\x18\x02 \x03(\x0b\x32\x33.schedkit.runtimes.containerd.Container.LabelsEntry\x12\r\n\x05image\x18\x03 \x01(\t\x12@\n\x07runtime\x18\x04 \x01(\x0b\x32/.schedkit.runtimes.containerd.Container.Runtime\x12\"\n\x04spec\x18\x05 \x01(\x0b\x32\x14.google.protobuf.Any\x12\x13\n\x0bsnapshotter\x18\x06 \x01(\t\x12\x14\n\x0csnapshot_key\x18\x07 \x01(\t\x12.\n\ncreated_at\x18\x08 \x01(\x0b\x32\x1a.google.protobuf.Timestamp\x1a\x17\n\x07Runtime\x12\x0c\n\x04name\x18\x01 \x01(\t\x1a-\n\x0bLabelsEntry\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\r\n\x05value\x18\x02 \x01(\t:\x02\x38\x01\"!\n\x13GetContainerRequest\x12\n\n\x02id\x18\x01 \x01(\t\"R\n\x14GetContainerResponse\x12:\n\tcontainer\x18\x01 \x01(\x0b\x32\'.schedkit.runtimes.containerd.Container\"(\n\x15ListContainersRequest\x12\x0f\n\x07\x66ilters\x18\x01 \x03(\t\"U\n\x16ListContainersResponse\x12;\n\ncontainers\x18\x01 \x03(\x0b\x32\'.schedkit.runtimes.containerd.Container\"T\n\x16\x43reateContainerRequest\x12:\n\tcontainer\x18\x01 \x01(\x0b\x32\'.schedkit.runtimes.containerd.Container\"U\n\x17\x43reateContainerResponse\x12:\n\tcontainer\x18\x01 \x01(\x0b\x32\'.schedkit.runtimes.containerd.Container\"\x85\x01\n\x16UpdateContainerRequest\x12:\n\tcontainer\x18\x01 \x01(\x0b\x32\'.schedkit.runtimes.containerd.Container\x12/\n\x0bupdate_mask\x18\x02 \x01(\x0b\x32\x1a.google.protobuf.FieldMask\"U\n\x17UpdateContainerResponse\x12:\n\tcontainer\x18\x01 \x01(\x0b\x32\'.schedkit.runtimes.containerd.Container\"$\n\x16\x44\x65leteContainerRequest\x12\n\n\x02id\x18\x01 \x01(\t\"\xb9\x01\n\x07Process\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\x12\n\n\x02id\x18\x02 \x01(\t\x12\x0b\n\x03pid\x18\x03 \x01(\r\x12;\n\x06status\x18\x04 \x01(\x0e\x32+.schedkit.runtimes.containerd.ProcessStatus\x12\x13\n\x0b\x65xit_status\x18\t \x01(\r\x12-\n\texited_at\x18\n \x01(\x0b\x32\x1a.google.protobuf.Timestamp\"\x8d\x01\n\x11\x43reateTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\x12\x33\n\x06rootfs\x18\x03 \x03(\x0b\x32#.schedkit.runtimes.containerd.Mount\x12\r\n\x05stdin\x18\x04 \x01(\t\x12\x0e\n\x06stdout\x18\x05 \x01(\t\x12\x0e\n\x06stderr\x18\x06 \x01(\t\"!\n\x12\x43reateTaskResponse\x12\x0b\n\x03pid\x18\x02 \x01(\r\"(\n\x10StartTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\" \n\x11StartTaskResponse\x12\x0b\n\x03pid\x18\x01 \x01(\r\")\n\x11\x44\x65leteTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\")\n\x12\x44\x65leteTaskResponse\x12\x13\n\x0b\x65xit_status\x18\x03 \x01(\r\"&\n\x0eGetTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\"I\n\x0fGetTaskResponse\x12\x36\n\x07process\x18\x01 \x01(\x0b\x32%.schedkit.runtimes.containerd.Process\"\"\n\x10ListTasksRequest\x12\x0e\n\x06\x66ilter\x18\x01 \x01(\t\"I\n\x11ListTasksResponse\x12\x34\n\x05tasks\x18\x01 \x03(\x0b\x32%.schedkit.runtimes.containerd.Process\"7\n\x0fKillTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\x12\x0e\n\x06signal\x18\x03 \x01(\r\"\'\n\x0fWaitTaskRequest\x12\x14\n\x0c\x63ontainer_id\x18\x01 \x01(\t\"V\n\x10WaitTaskResponse\x12\x13\n\x0b\x65xit_status\x18\x01 \x01(\r\x12-\n\texited_at\x18\x02 \x01(\x0b\x32\x1a.google.protobuf.Timestamp*U\n\x0bWriteAction\x12\x15\n\x11WRITE_ACTION_STAT\x10\x00\x12\x16\n\x12WRITE_ACTION_WRITE\x10\x01\x12\x17\n\x13WRITE_ACTION_COMMIT\x10\x02*\xb6\x01\n\rProcessStatus\x12\x1a\n\x16PROCESS_STATUS_UNKNOWN\x10\x00\x12\x1a\n\x16PROCESS_STATUS_CREATED\x10\x01\x12\x1a\n\x16PROCESS_STATUS_RUNNING\x10\x02\x12\x1a\n\x16PROCESS_STATUS_STOPPED\x10\x03\x12\x19\n\x15PROCESS_STATUS_PAUSED\x10\x04\x12\x1a\n\x16PROCESS_STATUS_PAUSING\x10\x05\x62\x06proto3')

_globals = globals()
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, _globals)
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'schedkit.runtimes.containerd.messages_pb2', _globals)
if not _descriptor._USE_C_DESCRIPTORS:
  DESCRIPTOR._loaded_options = None
  _globals['_DESCRIPTOR_ANNOTATIONSENTRY']._loaded_options = None
  _globals['_DESCRIPTOR_ANNOTATIONSENTRY']._serialized_options = b'8\001'
  _globals['_CREATELEASEREQUEST_LABELSENTRY']._loaded_options = None
  _globals['_CREATELEASEREQUEST_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_CONTENTINFO_LABELSENTRY']._loaded_options = None
  _globals['_CONTENTINFO_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_IMAGE_LABELSENTRY']._loaded_options = None
  _globals['_IMAGE_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_PREPARESNAPSHOTREQUEST_LABELSENTRY']._loaded_options = None
  _globals['_PREPARESNAPSHOTREQUEST_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_COMMITSNAPSHOTREQUEST_LABELSENTRY']._loaded_options = None
  _globals['_COMMITSNAPSHOTREQUEST_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_CONTAINER_LABELSENTRY']._loaded_options = None
  _globals['_CONTAINER_LABELSENTRY']._serialized_options = b'8\001'
  _globals['_WRITEACTION']._serialized_start=5813
  _globals['_WRITEACTION']._serialized_end=5898
  _globals['_PROCESSSTATUS']._serialized_start=5901
  _globals['_PROCESSSTATUS']._serialized_end=6083
  _globals['_DESCRIPTOR']._serialized_start=172
  _globals['_DESCRIPTOR']._serialized_end=366
  _globals['_DESCRIPTOR_ANNOTATIONSENTRY']._serialized_start=316
  _globals['_DESCRIPTOR_ANNOTATIONSENTRY']._serialized_end=366
  _globals['_MOUNT']._serialized_start=368
  _globals['_MOUNT']._serialized_end=438
  _globals['_VERSIONRESPONSE']._serialized_start=440
  _globals['_VERSIONRESPONSE']._serialized_end=474
  _globals['_PLUGINSREQUEST']._serialized_start=476
  _globals['_PLUGINSREQUEST']._serialized_end=509
  _globals['_PLUGINSRESPONSE']._serialized_start=511
  _globals['_PLUGINSRESPONSE']._serialized_end=583
  _globals['_PLUGIN']._serialized_start=585
  _globals['_PLUGIN']._serialized_end=680
  _globals['_PLUGINERROR']._serialized_start=682
  _globals['_PLUGINERROR']._serialized_end=726
  _globals['_CREATELEASEREQUEST']._serialized_start=729
  _globals['_CREATELEASEREQUEST']._serialized_end=886
  _globals['_CREATELEASEREQUEST_LABELSENTRY']._serialized_start=841
  _globals['_CREATELEASEREQUEST_LABELSENTRY']._serialized_end=886
  _globals['_CREATELEASERESPONSE']._serialized_start=888
  _globals['_CREATELEASERESPONSE']._serialized_end=909
  _globals['_DELETELEASEREQUEST']._serialized_start=911
  _globals['_DELETELEASEREQUEST']._serialized_end=957
  _globals['_LEASERESOURCE']._serialized_start=959
  _globals['_LEASERESOURCE']._serialized_end=1000
  _globals['_ADDLEASERESOURCEREQUEST']._serialized_start=1002
  _globals['_ADDLEASERESOURCEREQUEST']._serialized_end=1102
  _globals['_CONTENTINFO']._serialized_start=1105
  _globals['_CONTENTINFO']._serialized_end=1266
  _globals['_CONTENTINFO_LABELSENTRY']._serialized_start=841
  _globals['_CONTENTINFO_LABELSENTRY']._serialized_end=886
  _globals['_CONTENTINFOREQUEST']._serialized_start=1268
  _globals['_CONTENTINFOREQUEST']._serialized_end=1304
  _globals['_CONTENTINFORESPONSE']._serialized_start=1306
  _globals['_CONTENTINFORESPONSE']._serialized_end=1384
  _globals['_UPDATECONTENTREQUEST']._serialized_start=1387
  _globals['_UPDATECONTENTREQUEST']._serialized_end=1515
  _globals['_UPDATECONTENTRESPONSE']._serialized_start=1517
  _globals['_UPDATECONTENTRESPONSE']._serialized_end=1597
  _globals['_READCONTENTREQUEST']._serialized_start=1599
  _globals['_READCONTENTREQUEST']._serialized_end=1665
  _globals['_READCONTENTRESPONSE']._serialized_start=1667
  _globals['_READCONTENTRESPONSE']._serialized_end=1718
  _globals['_WRITECONTENTREQUEST']._serialized_start=1721
  _globals['_WRITECONTENTREQUEST']._serialized_end=1877
  _globals['_WRITECONTENTRESPONSE']._serialized_start=1880
  _globals['_WRITECONTENTRESPONSE']._serialized_end=2008
  _globals['_ABORTREQUEST']._serialized_start=2010
  _globals['_ABORTREQUEST']._serialized_end=2037
  _globals['_IMAGE']._serialized_start=2040
  _globals['_IMAGE']._serialized_end=2231
  _globals['_IMAGE_LABELSENTRY']._serialized_start=841
  _globals['_IMAGE_LABELSENTRY']._serialized_end=886
  _globals['_GETIMAGEREQUEST']._serialized_start=2233
  _globals['_GETIMAGEREQUEST']._serialized_end=2264
  _globals['_GETIMAGERESPONSE']._serialized_start=2266
  _globals['_GETIMAGERESPONSE']._serialized_end=2336
  _globals['_CREATEIMAGEREQUEST']._serialized_start=2338
  _globals['_CREATEIMAGEREQUEST']._serialized_end=2410
  _globals['_CREATEIMAGERESPONSE']._serialized_start=2412
  _globals['_CREATEIMAGERESPONSE']._serialized_end=2485
  _globals['_UPDATEIMAGEREQUEST']._serialized_start=2487
  _globals['_UPDATEIMAGEREQUEST']._serialized_end=2608
  _globals['_UPDATEIMAGERESPONSE']._serialized_start=2610
  _globals['_UPDATEIMAGERESPONSE']._serialized_end=2683
  _globals['_DELETEIMAGEREQUEST']._serialized_start=2685
  _globals['_DELETEIMAGEREQUEST']._serialized_end=2733
  _globals['_LISTIMAGESREQUEST']._serialized_start=2735
  _globals['_LISTIMAGESREQUEST']._serialized_end=2771
  _globals['_LISTIMAGESRESPONSE']._serialized_start=2773
  _globals['_LISTIMAGESRESPONSE']._serialized_end=2846
  _globals['_APPLYREQUEST']._serialized_start=2848
  _globals['_APPLYREQUEST']._serialized_end=2971
  _globals['_APPLYRESPONSE']._serialized_start=2973
  _globals['_APPLYRESPONSE']._serialized_end=3047
  _globals['_PREPARESNAPSHOTREQUEST']._serialized_start=3050
  _globals['_PREPARESNAPSHOTREQUEST']._serialized_end=3253
  _globals['_PREPARESNAPSHOTREQUEST_LABELSENTRY']._serialized_start=841
  _globals['_PREPARESNAPSHOTREQUEST_LABELSENTRY']._serialized_end=886
  _globals['_PREPARESNAPSHOTRESPONSE']._serialized_start=3255
  _globals['_PREPARESNAPSHOTRESPONSE']._serialized_end=3333
  _globals['_SNAPSHOTMOUNTSREQUEST']._serialized_start=3335
  _globals['_SNAPSHOTMOUNTSREQUEST']._serialized_end=3392
  _globals['_SNAPSHOTMOUNTSRESPONSE']._serialized_start=3394
  _globals['_SNAPSHOTMOUNTSRESPONSE']._serialized_end=3471
  _globals['_COMMITSNAPSHOTREQUEST']._serialized_start=3474
  _globals['_COMMITSNAPSHOTREQUEST']._serialized_end=3673
  _globals['_COMMITSNAPSHOTREQUEST_LABELSENTRY']._serialized_start=841
  _globals['_COMMITSNAPSHOTREQUEST_LABELSENTRY']._serialized_end=886
  _globals['_REMOVESNAPSHOTREQUEST']._serialized_start=3675
  _globals['_REMOVESNAPSHOTREQUEST']._serialized_end=3732
  _globals['_STATSNAPSHOTREQUEST']._serialized_start=3734
  _globals['_STATSNAPSHOTREQUEST']._serialized_end=3789
  _globals['_STATSNAPSHOTRESPONSE']._serialized_start=3791
  _globals['_STATSNAPSHOTRESPONSE']._serialized_end=3813
  _globals['_CONTAINER']._serialized_start=3816
  _globals['_CONTAINER']._serialized_end=4188
  _globals['_CONTAINER_RUNTIME']._serialized_start=4118
  _globals['_CONTAINER_RUNTIME']._serialized_end=4141
  _globals['_CONTAINER_LABELSENTRY']._serialized_start=841
  _globals['_CONTAINER_LABELSENTRY']._serialized_end=886
  _globals['_GETCONTAINERREQUEST']._serialized_start=4190
  _globals['_GETCONTAINERREQUEST']._serialized_end=4223
  _globals['_GETCONTAINERRESPONSE']._serialized_start=4225
  _globals['_GETCONTAINERRESPONSE']._serialized_end=4307
  _globals['_LISTCONTAINERSREQUEST']._serialized_start=4309
  _globals['_LISTCONTAINERSREQUEST']._serialized_end=4349
  _globals['_LISTCONTAINERSRESPONSE']._serialized_start=4351
  _globals['_LISTCONTAINERSRESPONSE']._serialized_end=4436
  _globals['_CREATECONTAINERREQUEST']._serialized_start=4438
  _globals['_CREATECONTAINERREQUEST']._serialized_end=4522
  _globals['_CREATECONTAINERRESPONSE']._serialized_start=4524
  _globals['_CREATECONTAINERRESPONSE']._serialized_end=4609
  _globals['_UPDATECONTAINERREQUEST']._serialized_start=4612
  _globals['_UPDATECONTAINERREQUEST']._serialized_end=4745
  _globals['_UPDATECONTAINERRESPONSE']._serialized_start=4747
  _globals['_UPDATECONTAINERRESPONSE']._serialized_end=4832
  _globals['_DELETECONTAINERREQUEST']._serialized_start=4834
  _globals['_DELETECONTAINERREQUEST']._serialized_end=4870
  _globals['_PROCESS']._serialized_start=4873
  _globals['_PROCESS']._serialized_end=5058
  _globals['_CREATETASKREQUEST']._serialized_start=5061
  _globals['_CREATETASKREQUEST']._serialized_end=5202
  _globals['_CREATETASKRESPONSE']._serialized_start=5204
  _globals['_CREATETASKRESPONSE']._serialized_end=5237
  _globals['_STARTTASKREQUEST']._serialized_start=5239
  _globals['_STARTTASKREQUEST']._serialized_end=5279
  _globals['_STARTTASKRESPONSE']._serialized_start=5281
  _globals['_STARTTASKRESPONSE']._serialized_end=5313
  _globals['_DELETETASKREQUEST']._serialized_start=5315
  _globals['_DELETETASKREQUEST']._serialized_end=5356
  _globals['_DELETETASKRESPONSE']._serialized_start=5358
  _globals['_DELETETASKRESPONSE']._serialized_end=5399
  _globals['_GETTASKREQUEST']._serialized_start=5401
  _globals['_GETTASKREQUEST']._serialized_end=5439
  _globals['_GETTASKRESPONSE']._serialized_start=5441
  _globals['_GETTASKRESPONSE']._serialized_end=5514
  _globals['_LISTTASKSREQUEST']._serialized_start=5516
  _globals['_LISTTASKSREQUEST']._serialized_end=5550
  _globals['_LISTTASKSRESPONSE']._serialized_start=5552
  _globals['_LISTTASKSRESPONSE']._serialized_end=5625
  _globals['_KILLTASKREQUEST']._serialized_start=5627
  _globals['_KILLTASKREQUEST']._serialized_end=5682
  _globals['_WAITTASKREQUEST']._serialized_start=5684
  _globals['_WAITTASKREQUEST']._serialized_end=5723
  _globals['_WAITTASKRESPONSE']._serialized_start=5725
  _globals['_WAITTASKRESPONSE']._serialized_end=5811
# @@protoc_insertion_point(module_scope)
