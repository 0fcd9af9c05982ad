"""Networks of Qualcomm AI Hub rebuilt from torchvision, timm, transformers and ultralytics, with random weights.

Every entry follows the model's published definition in github.com/quic/ai-hub-models: the same variant, the same
input size, the same normalisation of images inside the network. Sizes of language models are those of the checkpoints
that the definitions name. Decoders with a cache of keys and values are written out as one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Network = tuple[nn.Module, tuple[Tensor, ...]]
"""A module, and example arguments."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Normalised(nn.Module):
    """Normalise images of [0, 1], then run a network and keep its tensors."""

    def __init__(self, net: nn.Module, pick: Callable[[Any], Any] | None = None, normalise: bool = True) -> None:
        super().__init__()
        self.net, self.pick, self.normalise = net, pick, normalise
        self.register_buffer("mean", torch.zeros(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.ones(1, 3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Any:
        """[1, 3, h, w] -> what the network returns, or the part that is picked."""
        if self.normalise:
            x = (x - self.mean) / self.deviation
        out = self.net(x)
        return self.pick(out) if self.pick else out


def image(height: int = 224, width: int | None = None, channels: int = 3) -> tuple[Tensor]:
    """One image."""
    return (torch.zeros(1, channels, height, width or height),)


def vision(name: str, size: int = 224, **arguments: Any) -> Callable[[], Network]:
    """A classifier of torchvision."""

    def build() -> Network:
        from torchvision import models

        return Normalised(getattr(models, name)(weights=None, **arguments)), image(size)

    return build


def video(name: str) -> Callable[[], Network]:
    """A classifier of clips of 16 frames, 112 pixels wide."""

    def build() -> Network:
        from torchvision.models import video

        net = getattr(video, name)(weights=None)
        net.avgpool = _Mean()
        return net, (torch.zeros(1, 3, 16, 112, 112),)

    return build


class _Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], -1).mean(dim=2)


def timm_model(name: str, size: int = 224) -> Callable[[], Network]:
    """A classifier of timm, its attention written out."""

    def build() -> Network:
        import timm

        timm.layers.set_fused_attn(False)
        return Normalised(timm.create_model(name, pretrained=False, exportable=True)), image(size)

    return build


def fcn() -> Network:
    from torchvision.models import segmentation

    net = segmentation.fcn_resnet50(weights=None, weights_backbone=None, aux_loss=False)
    return Normalised(net, lambda out: out["out"].argmax(1)), image(520)


class _Boxes3D(nn.Module):
    """Orientation, confidence and size of boxes, by github.com/skhadem/3D-BoundingBox."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision import models

        self.features = models.vgg19_bn(weights=None).features
        self.orientation, self.confidence = (self._head(256, out) for out in (4, 2))
        self.size = self._head(512, 3)

    @staticmethod
    def _head(width: int, out: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(512 * 7 * 7, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.features(x).flatten(1)
        return nn.functional.normalize(self.orientation(x).view(-1, 2, 2), dim=2), self.confidence(x), self.size(x)


def boxes_3d() -> Network:
    return Normalised(_Boxes3D()), image(224)


def inception() -> Network:
    from torchvision import models

    net = models.inception_v3(weights=None, aux_logits=False, init_weights=False, transform_input=False)
    return Normalised(net), image(224)


# ------------------------------------------------------------------------------------------------- transformers


def text(config: str, model: str, **sizes: Any) -> Callable[[], Network]:
    """A masked language model over 384 tokens, with attention mask."""

    def build() -> Network:
        import transformers

        settings = getattr(transformers, config)(**sizes, attn_implementation="eager")
        net = getattr(transformers, model)(settings)
        return _Text(net), (torch.zeros(1, 384, dtype=torch.int32), torch.ones(1, 384))

    return build


class _Text(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.net(tokens, attention_mask=mask, return_dict=False)[0].argmax(-1)


def detr(layers: str, conditional: bool = False, dilated: bool = False) -> Callable[[], Network]:
    """DETR on an image of 640 x 640."""

    def build() -> Network:
        import transformers

        kind = "ConditionalDetr" if conditional else "Detr"
        backbone = transformers.ResNetConfig(
            depths=[3, 4, 23, 3] if layers == "101" else [3, 4, 6, 3], out_features=["stage4"]
        )
        config = getattr(transformers, f"{kind}Config")(
            backbone_config=backbone, num_labels=91, attn_implementation="eager",
            **({"num_queries": 300} if conditional else {}),
        )  # fmt: skip
        net = getattr(transformers, f"{kind}ForObjectDetection")(config)
        if dilated:  # the last stage keeps its resolution
            for module in net.modules():
                if type(module).__name__ == "ResNetStage" and any(
                    isinstance(m, nn.Conv2d) and m.out_channels == 2048 for m in module.modules()
                ):
                    for conv in (m for m in module.modules() if isinstance(m, nn.Conv2d)):
                        conv.stride = (1, 1)
                        if conv.kernel_size == (3, 3):
                            conv.dilation, conv.padding = (2, 2), (2, 2)
        return Normalised(_Boxes(net)), image(640)

    return build


class _Boxes(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out = self.net(x, return_dict=False)
        scores, labels = out[0].softmax(-1)[..., :-1].max(-1)
        centre, size = out[1][..., :2], out[1][..., 2:]
        return torch.cat([centre - 0.5 * size, centre + 0.5 * size], -1) * 640.0, scores, labels


class _First(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x, return_dict=False)[0]


def levit() -> Network:
    import transformers

    config = transformers.LevitConfig(
        hidden_sizes=[128, 256, 384], num_attention_heads=[4, 6, 8], depths=[2, 3, 4], key_dim=[16, 16, 16],
        num_labels=1000,
    )  # fmt: skip
    return Normalised(_First(transformers.LevitForImageClassificationWithTeacher(config))), image(224)


def mobile_vit() -> Network:
    import transformers

    config = transformers.MobileViTConfig(num_labels=1000)
    return _First(transformers.MobileViTForImageClassification(config)), image(256)


def depth_anything() -> Network:
    import transformers

    backbone = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14,
        out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True, attn_implementation="eager",
    )  # fmt: skip
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=64, head_hidden_size=32, attn_implementation="eager",
    )  # fmt: skip
    return Normalised(_First(transformers.DepthAnythingForDepthEstimation(config))), image(518)


def wavlm() -> Network:
    import transformers

    config = transformers.WavLMConfig(vocab_size=31, attn_implementation="eager")
    return _First(transformers.WavLMForCTC(config)), (torch.zeros(1, 160000),)


class Attention(nn.Module):
    """Attention, written out, over given keys and values or over those of the input."""

    def __init__(self, width: int, heads: int, project: bool = True) -> None:
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = (nn.Linear(width, width), nn.Linear(width, width)) if project else (None, None)

    def split(self, x: Tensor) -> Tensor:
        """[1, n, width] -> [1, heads, n, each]."""
        return x.view(1, -1, self.heads, self.each).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None, past: Sequence[Tensor] = ()) -> tuple[Tensor, Tensor, Tensor]:
        """The result, and all keys and values."""
        q = self.split(self.q(x) * self.each**-0.5)
        if self.k is not None and self.v is not None:
            k, v = self.split(self.k(x)), self.split(self.v(x))
            if past:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        else:
            k, v = past
        scores = q @ k.transpose(2, 3)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(1, -1, self.heads * self.each)), k, v


class DecoderStep(nn.Module):
    """One token of a decoder with cross attention and caches, as the published definitions export it."""

    def __init__(self, layers: int, width: int, heads: int, inner: int, words: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "own": Attention(width, heads),
                    "cross": Attention(width, heads, project=False),
                    "up": nn.Linear(width, inner),
                    "act": act(),
                    "down": nn.Linear(inner, width),
                    "norms": nn.ModuleList(nn.LayerNorm(width) for _ in range(3)),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, token: Tensor, position: Tensor, mask: Tensor, caches: list[Tensor]) -> tuple[Tensor, ...]:
        """[1, 1] token, [1] position, mask over the own cache, four caches a layer -> scores and caches."""
        x = self.embedding(token) + self.positions(position)
        kept: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            first, second, third = layer["norms"]  # type: ignore[index]
            out, k, v = layer["own"](x, mask, caches[4 * i : 4 * i + 2])  # type: ignore[index]
            kept += [k[:, :, 1:], v[:, :, 1:]]
            x = first(x + out)
            x = second(x + layer["cross"](x, None, caches[4 * i + 2 : 4 * i + 4])[0])  # type: ignore[index]
            x = third(x + layer["down"](layer["act"](layer["up"](x))))  # type: ignore[index]
        return self.head(x), *kept


def decoder(
    layers: int, width: int, heads: int, inner: int, words: int, own: int, cross: int, act: type[nn.Module]
) -> Callable[[], Network]:
    """One step of a decoder."""

    def build() -> Network:
        each = width // heads
        caches = [torch.zeros(1, heads, n, each) for _ in range(layers) for n in (own - 1, own - 1, cross, cross)]
        token, position = torch.zeros(1, 1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        net = DecoderStep(layers, width, heads, inner, words, act)
        return net, (token, position, torch.zeros(1, 1, 1, own), caches)  # type: ignore[return-value]

    return build


class Encoder(nn.Module):
    """A pre- or post-norm encoder that ends in the keys and values of a decoder's cross attention."""

    def __init__(self, body: nn.Module, width: int, target: int, layers: int) -> None:
        super().__init__()
        self.body = body
        self.kv = nn.ModuleList(nn.Linear(width, target) for _ in range(2 * layers))

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """The encoder's inputs -> keys and values of each layer of the decoder."""
        states = self.body(*inputs, return_dict=False)[0]
        return [kv(states).view(1, states.shape[1], 8, -1).transpose(1, 2).contiguous() for kv in self.kv]


def marian() -> Network:
    import transformers

    config = transformers.MarianConfig(
        vocab_size=65001, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish",
        attn_implementation="eager", pad_token_id=65000, decoder_start_token_id=65000,
    )  # fmt: skip
    body = transformers.MarianMTModel(config).get_encoder()
    tokens = torch.zeros(1, 256, dtype=torch.int32)
    return Encoder(body, 512, 512, 6), (tokens, torch.ones(1, 256, dtype=torch.int32))


def trocr() -> Network:
    import transformers

    config = transformers.DeiTConfig(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, image_size=384,
        attn_implementation="eager",
    )  # fmt: skip
    return Encoder(transformers.DeiTModel(config, add_pooling_layer=False), 384, 256, 6), image(384)


# ------------------------------------------------------------------------------------------------- ultralytics


def ultralytics_model(name: str, height: int = 640, width: int | None = None) -> Callable[[], Network]:
    """A detector or segmenter of ultralytics, with boxes as corners and the best class, before suppression."""

    def build() -> Network:
        from ultralytics.nn.modules import head
        from ultralytics.nn.tasks import DetectionModel, SegmentationModel

        kind = SegmentationModel if "seg" in name else DetectionModel
        net = kind(f"{name}.yaml", verbose=False).eval()
        for module in net.modules():
            if isinstance(module, head.Detect):
                module.export, module.format, module.end2end = True, "onnx", False
        return _Detections(net), image(height, width)

    return build


class _Detections(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        out = self.net(x)
        table, rest = (out[0], list(out[1:])) if isinstance(out, list | tuple) else (out, [])
        table = table.permute(0, 2, 1)
        centre, size = table[..., :2], table[..., 2:4]
        scores, labels = table[..., 4:84].max(-1)
        return torch.cat([centre - size / 2, centre + size / 2], -1), scores, labels, table[..., 84:], rest


# ------------------------------------------------------------------------------------------------- the table

NETWORKS: dict[tuple[str, str], Callable[[], Network]] = {
    ("convnext_base", "ConvNext-Base"): vision("convnext_base"),
    ("convnext_tiny", "ConvNext-Tiny"): vision("convnext_tiny"),
    ("densenet121", "DenseNet-121"): vision("densenet121"),
    ("fcn_resnet50", "FCN-ResNet50"): fcn,
    ("inception_v3", "Inception-v3"): inception,
    ("mobilenet_v3_large", "MobileNet-v3-Large"): vision("mobilenet_v3_large"),
    ("regnet", "RegNet"): vision("regnet_x_3_2gf"),
    ("resnet18", "ResNet18"): vision("resnet18"),
    ("resnet50", "ResNet50"): vision("resnet50"),
    ("resnet101", "ResNet101"): vision("resnet101"),
    ("resnext101", "ResNeXt101"): vision("resnext101_32x8d"),
    ("wideresnet50", "WideResNet50"): vision("wide_resnet50_2"),
    ("shufflenet_v2", "Shufflenet-v2"): vision("shufflenet_v2_x0_5"),
    ("squeezenet1_1", "SqueezeNet-1.1"): vision("squeezenet1_1"),
    ("vit", "VIT"): vision("vit_b_16"),
    ("resnet_2plus1d", "ResNet-2Plus1D"): video("r2plus1d_18"),
    ("resnet_mixed", "ResNet-Mixed-Convolution"): video("mc3_18"),
    ("efficientformer", "EfficientFormer"): timm_model("efficientformer_l1"),
    ("nasnet", "NASNet"): timm_model("nasnetalarge"),
    ("sequencer2d", "Sequencer2D"): timm_model("sequencer2d_s"),
    ("albert_base_v2_hf", "Albert-Base-V2-Hf"): text(
        "AlbertConfig", "AlbertForMaskedLM", vocab_size=30000, embedding_size=128, hidden_size=768,
        num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
    ),
    ("bert_base_uncased_hf", "Bert-Base-Uncased-Hf"): text("BertConfig", "BertForMaskedLM"),
    ("distil_bert_base_uncased_hf", "Distil-Bert-Base-Uncased-Hf"): text("DistilBertConfig", "DistilBertForMaskedLM"),
    ("electra_bert_base_discrim_google", "Electra-Bert-Base-Discrim-Google"): text(
        "ElectraConfig", "ElectraForPreTraining", embedding_size=768, hidden_size=768, num_attention_heads=12,
        intermediate_size=3072,
    ),
    ("mobile_bert_uncased_google", "Mobile-Bert-Uncased-Google"): text("MobileBertConfig", "MobileBertForMaskedLM"),
    ("detr_resnet50", "DETR-ResNet50"): detr("50"),
    ("detr_resnet50_dc5", "DETR-ResNet50-DC5"): detr("50", dilated=True),
    ("detr_resnet101", "DETR-ResNet101"): detr("101"),
    ("detr_resnet101_dc5", "DETR-ResNet101-DC5"): detr("101", dilated=True),
    ("conditional_detr_resnet50", "Conditional-DETR-ResNet50"): detr("50", conditional=True),
    ("levit", "LeViT"): levit,
    ("mobile_vit", "Mobile-VIT"): mobile_vit,
    ("depth_anything_v2", "Depth-Anything-V2"): depth_anything,
    ("huggingface_wavlm_base_plus", "HuggingFace-WavLM-Base-Plus"): wavlm,
    ("opus_mt_en_zh", "OpusMTEncoder"): marian,
    ("opus_mt_zh_en", "OpusMTEncoder"): marian,
    ("opus_mt_en_zh", "OpusMTDecoder"): decoder(6, 512, 8, 2048, 65001, 256, 256, nn.SiLU),
    ("opus_mt_zh_en", "OpusMTDecoder"): decoder(6, 512, 8, 2048, 65001, 256, 256, nn.SiLU),
    ("trocr", "TrOCREncoder"): trocr,
    ("trocr", "TrOCRDecoder"): decoder(6, 256, 8, 1024, 64044, 20, 578, nn.ReLU),
    ("yolov3", "Yolo-v3"): ultralytics_model("yolov3-tiny"),
    ("deepbox", "Yolo2DDetection"): ultralytics_model("yolov3-tiny", 224, 640),
    ("deepbox", "VGG3DDetection"): boxes_3d,
    ("yolov8_det", "YOLOv8-Detection"): ultralytics_model("yolov8n"),
    ("yolov8_seg", "YOLOv8-Segmentation"): ultralytics_model("yolov8n-seg"),
    ("yolov10_det", "YOLOv10-Detection"): ultralytics_model("yolov10n"),
    ("yolov11_det", "YOLOv11-Detection"): ultralytics_model("yolo11n"),
    ("yolov11_seg", "YOLOv11-Segmentation"): ultralytics_model("yolo11n-seg"),
    ("fastsam_x", "FastSam-X"): ultralytics_model("yolov8x-seg"),
}  # fmt: skip
"""Model and component as in the table of latencies -> its network."""
