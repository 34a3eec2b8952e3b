"""Named resources of AWS instance types: `aws_p3.2xlarge`, and `aws_p3_2xlarge()` from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from launcher.specs.app import Resource

MEM_TAX = 0.96
"""The part of an instance's memory that containers can use."""

GiB = int(1024 * MEM_TAX)
"""The usable part, in MiB, of a nominal GiB."""

K8S_ITYPE = "node.kubernetes.io/instance-type"
EFA_DEVICE = "vpc.amazonaws.com/efa"
NEURON_DEVICE = "aws.amazon.com/neurondevice"

NAMED_RESOURCES: dict[str, Callable[[], Resource]] = {}


def _instance(
    itype: str, cpu: int, gpu: int, memory_gib: int, *, efa: int = 0, neuron: int = 0
) -> Callable[[], Resource]:
    """Register an instance type and return the function that makes its resource."""

    def make() -> Resource:
        counts = {EFA_DEVICE: efa, NEURON_DEVICE: neuron}
        return Resource(
            cpu=cpu,
            gpu=gpu,
            memMB=memory_gib * GiB,
            capabilities={K8S_ITYPE: itype},
            devices={name: count for name, count in counts.items() if count},
        )

    NAMED_RESOURCES[f"aws_{itype}"] = make
    return make


def instance_type_from_resource(resource: Resource) -> str | None:
    """The instance type that the resource asks for; None, with a warning, when it asks for none."""
    itype = resource.capabilities.get(K8S_ITYPE)
    if itype is None:
        warnings.warn(f"the resource names no instance type (capability {K8S_ITYPE})", stacklevel=2)
        return None
    return str(itype)


# Source: the instance type pages of the vendor. Columns: vCPU, GPU, memory in GiB.
aws_t3_medium = _instance("t3.medium", 2, 0, 4)
aws_m5_2xlarge = _instance("m5.2xlarge", 8, 0, 32)
aws_c5_18xlarge = _instance("c5.18xlarge", 72, 0, 142)
aws_p3_2xlarge = _instance("p3.2xlarge", 8, 1, 61)
aws_p3_8xlarge = _instance("p3.8xlarge", 32, 4, 244)
aws_p3_16xlarge = _instance("p3.16xlarge", 64, 8, 488)
aws_p3dn_24xlarge = _instance("p3dn.24xlarge", 96, 8, 768, efa=1)
aws_p4d_24xlarge = _instance("p4d.24xlarge", 96, 8, 1152, efa=4)
aws_p4de_24xlarge = _instance("p4de.24xlarge", 96, 8, 1152, efa=4)
aws_p5_48xlarge = _instance("p5.48xlarge", 192, 8, 2048, efa=32)
aws_p5en_48xlarge = _instance("p5en.48xlarge", 192, 8, 2048, efa=16)
aws_g4dn_xlarge = _instance("g4dn.xlarge", 4, 1, 16)
aws_g4dn_2xlarge = _instance("g4dn.2xlarge", 8, 1, 32)
aws_g4dn_4xlarge = _instance("g4dn.4xlarge", 16, 1, 64)
aws_g4dn_8xlarge = _instance("g4dn.8xlarge", 32, 1, 128, efa=1)
aws_g4dn_12xlarge = _instance("g4dn.12xlarge", 48, 4, 192, efa=1)
aws_g4dn_16xlarge = _instance("g4dn.16xlarge", 64, 1, 256, efa=1)
aws_g4dn_metal = _instance("g4dn.metal", 96, 8, 384, efa=1)
aws_g5_xlarge = _instance("g5.xlarge", 4, 1, 16)
aws_g5_2xlarge = _instance("g5.2xlarge", 8, 1, 32)
aws_g5_4xlarge = _instance("g5.4xlarge", 16, 1, 64)
aws_g5_8xlarge = _instance("g5.8xlarge", 32, 1, 128, efa=1)
aws_g5_12xlarge = _instance("g5.12xlarge", 48, 4, 192, efa=1)
aws_g5_16xlarge = _instance("g5.16xlarge", 64, 1, 256, efa=1)
aws_g5_24xlarge = _instance("g5.24xlarge", 96, 4, 384, efa=1)
aws_g5_48xlarge = _instance("g5.48xlarge", 192, 8, 768, efa=1)
aws_g6e_xlarge = _instance("g6e.xlarge", 4, 1, 32)
aws_g6e_2xlarge = _instance("g6e.2xlarge", 8, 1, 64)
aws_g6e_4xlarge = _instance("g6e.4xlarge", 16, 1, 128)
aws_g6e_8xlarge = _instance("g6e.8xlarge", 32, 1, 256)
aws_g6e_12xlarge = _instance("g6e.12xlarge", 48, 4, 384)
aws_g6e_16xlarge = _instance("g6e.16xlarge", 64, 1, 512)
aws_g6e_24xlarge = _instance("g6e.24xlarge", 96, 4, 768, efa=2)
aws_g6e_48xlarge = _instance("g6e.48xlarge", 192, 8, 1536, efa=4)
aws_trn1_2xlarge = _instance("trn1.2xlarge", 8, 0, 32, neuron=1)
aws_trn1_32xlarge = _instance("trn1.32xlarge", 128, 0, 512, efa=8, neuron=16)
aws_inf2_xlarge = _instance("inf2.xlarge", 4, 0, 16, neuron=1)
aws_inf2_8xlarge = _instance("inf2.8xlarge", 32, 0, 128, neuron=1)
aws_inf2_24xlarge = _instance("inf2.24xlarge", 96, 0, 384, neuron=6)
aws_inf2_48xlarge = _instance("inf2.48xlarge", 192, 0, 768, neuron=12)

AWS_NAMED_RESOURCES = NAMED_RESOURCES
