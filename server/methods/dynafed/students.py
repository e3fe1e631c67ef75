"""Which kind of student a network gets."""

from torch import nn

from fedmirage.server.methods.dynafed.convnet import ConvNetStudent, is_convnet
from fedmirage.server.methods.dynafed.perceptron import PerceptronStudent, is_perceptron
from fedmirage.server.methods.dynafed.student import Student


def make_student(model: nn.Module, classes: int) -> Student:
    """Choose a faster kind if the network has the form that it needs."""
    if is_perceptron(model, classes):
        return PerceptronStudent(model, classes)
    return ConvNetStudent(model, classes) if is_convnet(model, classes) else Student(model, classes)
