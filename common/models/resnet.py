"""torchvision's residual networks in named stages, with any stem, norm and number of channels."""

from functools import partial

from torch import nn

from fedmirage.common.models.base import Model, Shape, chain, norm_layer, require_size
from fedmirage.common.models.params import ResNetParams
from fedmirage.common.models.vision import torchvision

BLOCKS = {
    "resnet10": (1, 1, 1, 1),
    "resnet18": (2, 2, 2, 2),
    "resnet34": (3, 4, 6, 3),
    "resnet50": (3, 4, 6, 3),
}


def resnet(params: ResNetParams, shape: Shape, outputs: int) -> Model:
    """Features end after the global average pool: 512 values, or 2,048 for resnet50."""
    # The last stage must keep more than one pixel: the instance norm of a single value is zero.
    least = 33 if params.stem == "imagenet" else 9
    require_size(params, shape, least if params.norm == "instance" else 1)
    published = torchvision().models.resnet
    block = published.Bottleneck if params.name == "resnet50" else published.BasicBlock
    body = published.ResNet(
        block, BLOCKS[params.name], num_classes=1, norm_layer=partial(norm_layer, params.norm)
    )
    features = chain(
        stem=_stem(params, shape[0], body),
        stage1=body.layer1,
        stage2=body.layer2,
        stage3=body.layer3,
        stage4=body.layer4,
        pool=body.avgpool,
        flatten=nn.Flatten(),
    )
    for part in features.modules():
        if isinstance(part, nn.ReLU):
            part.inplace = False
    feature_dim = 512 * block.expansion
    return Model(features, nn.Linear(feature_dim, outputs), feature_dim)


def _stem(params: ResNetParams, channels: int, body: nn.Module) -> nn.Sequential:
    """The first convolution, initialised as in torchvision; only "imagenet" adds a pool."""
    if params.stem == "small":
        convolution = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        pool: nn.Module = nn.Identity()
    else:
        convolution = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        pool = nn.MaxPool2d(3, stride=2, padding=1)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return chain(
        conv=convolution, norm=norm_layer(params.norm, 64), activation=nn.ReLU(), pool=pool
    )
