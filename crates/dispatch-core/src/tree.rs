//! Trees of tensors, generic over what stands at the leaves.
//!
//! An op says once how its inputs and outputs are put together, and everything that has to walk
//! them (routing, validation, autodiff, fusion) is written once over [`Tree`].

use core::fmt::Debug;
use core::marker::PhantomData;

use core::convert::Infallible;

use burn::backend::{BackendTypes, TensorMetadata};
use burn::tensor::{DType, Shape};
use serde::{Deserialize, Serialize};

/// What can stand at a leaf.
pub trait Leaf: Clone + Debug + Send + Sync + 'static {}
impl<T: Clone + Debug + Send + Sync + 'static> Leaf for T {}

/// A choice of what stands at the leaves of a [`Tree`].
///
/// Every Burn backend is one (its tensor primitives), and so is [`Specs`].
pub trait Family: 'static {
    /// At a float leaf.
    type Float: Leaf;
    /// At an int leaf.
    type Int: Leaf;
    /// At a bool leaf.
    type Bool: Leaf;
    /// At a quantized leaf.
    type Quantized: Leaf;
}

impl<B: BackendTypes> Family for B {
    type Float = B::FloatTensorPrimitive;
    type Int = B::IntTensorPrimitive;
    type Bool = B::BoolTensorPrimitive;
    type Quantized = B::QuantizedTensorPrimitive;
}

/// The shape and the dtype of a tensor, without its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Dimensions, outermost first.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
}

impl TensorSpec {
    /// A spec from its parts.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> Self {
        Self {
            shape: shape.into(),
            dtype,
        }
    }
}

macro_rules! uniform_family {
    ($(#[$doc:meta])* $name:ident = $leaf:ty, $other:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Family for $name {
            type Float = $leaf;
            type Int = $other;
            type Bool = $other;
            type Quantized = $other;
        }
    };
}
uniform_family!(
    /// Shapes and dtypes at the leaves: what [`Op::infer`](crate::Op::infer) sees.
    Specs = TensorSpec, TensorSpec
);
uniform_family!(
    /// A flag at every float leaf: which gradients are wanted.
    Needs = bool, ()
);
uniform_family!(
    /// Nothing at the leaves: the bare form of a tree.
    Nothing = (), ()
);

/// A float of `F` or none at every float leaf, and nothing elsewhere: gradients.
#[derive(Clone, Copy, Debug)]
pub struct Grads<F>(PhantomData<fn() -> F>);
impl<F: Family> Family for Grads<F> {
    type Float = Option<F::Float>;
    type Int = ();
    type Bool = ();
    type Quantized = ();
}

/// Consumes the leaves of a tree of `F` and puts those of `G` in their place.
pub trait TryMap<F: Family, G: Family> {
    /// Why a leaf could not be mapped.
    type Error;
    /// Maps a float leaf.
    fn float(&mut self, leaf: F::Float) -> Result<G::Float, Self::Error>;
    /// Maps an int leaf.
    fn int(&mut self, leaf: F::Int) -> Result<G::Int, Self::Error>;
    /// Maps a bool leaf.
    fn bool(&mut self, leaf: F::Bool) -> Result<G::Bool, Self::Error>;
    /// Maps a quantized leaf.
    fn quantized(&mut self, leaf: F::Quantized) -> Result<G::Quantized, Self::Error>;
    /// Called before element `index` of a tuple is walked, and [`leave`](Self::leave) after it, so
    /// that errors can name the input.
    fn enter(&mut self, index: usize) {
        let _ = index;
    }
    /// Called after an element of a tuple.
    fn leave(&mut self) {}
}

/// Reads the leaves of a tree of `F` and builds a tree of `G` of the same form.
pub trait TryMapRef<F: Family, G: Family> {
    /// Why a leaf could not be mapped.
    type Error;
    /// Maps a float leaf.
    fn float(&mut self, leaf: &F::Float) -> Result<G::Float, Self::Error>;
    /// Maps an int leaf.
    fn int(&mut self, leaf: &F::Int) -> Result<G::Int, Self::Error>;
    /// Maps a bool leaf.
    fn bool(&mut self, leaf: &F::Bool) -> Result<G::Bool, Self::Error>;
    /// Maps a quantized leaf.
    fn quantized(&mut self, leaf: &F::Quantized) -> Result<G::Quantized, Self::Error>;
    /// See [`TryMap::enter`].
    fn enter(&mut self, index: usize) {
        let _ = index;
    }
    /// See [`TryMap::leave`].
    fn leave(&mut self) {}
}

/// How tensors are put together: a leaf ([`Float`], [`Int`], [`Bool`], [`Quantized`]), a tuple, an
/// `Option`, a `Vec` or an array of trees.
///
/// Leaves are always walked in the same order: tuple position, then element.
pub trait Tree: 'static {
    /// The tree with the leaves of `F`.
    type Of<F: Family>: Leaf;

    /// Maps every leaf, consuming the tree.
    ///
    /// # Errors
    ///
    /// The first error of `map`; the rest of the tree is dropped.
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
        tree: Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error>;

    /// Maps every leaf by reference.
    ///
    /// # Errors
    ///
    /// The first error of `map`.
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        tree: &Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error>;
}

macro_rules! leaf_tree {
    ($name:ident, $method:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl Tree for $name {
            type Of<F: Family> = F::$name;
            #[inline(always)]
            fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
                tree: F::$name,
                map: &mut M,
            ) -> Result<G::$name, M::Error> {
                map.$method(tree)
            }
            #[inline(always)]
            fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
                tree: &F::$name,
                map: &mut M,
            ) -> Result<G::$name, M::Error> {
                map.$method(tree)
            }
        }
    };
}
leaf_tree!(Float, float, "A float tensor.");
leaf_tree!(Int, int, "An int tensor (of any signed or unsigned dtype).");
leaf_tree!(Bool, bool, "A bool tensor.");
leaf_tree!(Quantized, quantized, "A quantized float tensor.");

macro_rules! tuple_tree {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            type Of<F: Family> = ($($name::Of<F>,)*);
            #[inline(always)]
            fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
                tree: Self::Of<F>,
                _map: &mut M,
            ) -> Result<Self::Of<G>, M::Error> {
                $(
                    _map.enter($index);
                    #[allow(non_snake_case)]
                    let $name = $name::try_map(tree.$index, _map)?;
                    _map.leave();
                )*
                let _ = tree;
                Ok(($($name,)*))
            }
            #[inline(always)]
            fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
                tree: &Self::Of<F>,
                _map: &mut M,
            ) -> Result<Self::Of<G>, M::Error> {
                $(
                    _map.enter($index);
                    #[allow(non_snake_case)]
                    let $name = $name::try_map_ref(&tree.$index, _map)?;
                    _map.leave();
                )*
                let _ = tree;
                Ok(($($name,)*))
            }
        }
    };
}
tuple_tree!(A 0);
tuple_tree!(A 0, B 1);
tuple_tree!(A 0, B 1, C 2);
tuple_tree!(A 0, B 1, C 2, D 3);
tuple_tree!(A 0, B 1, C 2, D 3, E 4);
tuple_tree!(A 0, B 1, C 2, D 3, E 4, H 5);
tuple_tree!(A 0, B 1, C 2, D 3, E 4, H 5, I 6);
tuple_tree!(A 0, B 1, C 2, D 3, E 4, H 5, I 6, J 7);

/// No tensor at all.
impl Tree for () {
    type Of<F: Family> = ();
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(_: (), _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        _: &(),
        _: &mut M,
    ) -> Result<(), M::Error> {
        Ok(())
    }
}

impl<T: Tree> Tree for Option<T> {
    type Of<F: Family> = Option<T::Of<F>>;
    #[inline(always)]
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
        tree: Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        tree.map(|tree| T::try_map(tree, map)).transpose()
    }
    #[inline(always)]
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        tree: &Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        tree.as_ref()
            .map(|tree| T::try_map_ref(tree, map))
            .transpose()
    }
}

impl<T: Tree> Tree for Vec<T> {
    type Of<F: Family> = Vec<T::Of<F>>;
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
        tree: Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        tree.into_iter().map(|tree| T::try_map(tree, map)).collect()
    }
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        tree: &Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        tree.iter().map(|tree| T::try_map_ref(tree, map)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    type Of<F: Family> = [T::Of<F>; N];
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
        tree: Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        let mut failed = None;
        let mapped = tree.map(|tree| match failed {
            None => T::try_map(tree, map)
                .map_err(|error| failed = Some(error))
                .ok(),
            Some(_) => None,
        });
        collect_array(mapped, failed)
    }
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        tree: &Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        let mut failed = None;
        let mapped = tree.each_ref().map(|tree| match failed {
            None => T::try_map_ref(tree, map)
                .map_err(|error| failed = Some(error))
                .ok(),
            Some(_) => None,
        });
        collect_array(mapped, failed)
    }
}

/// Every element is there exactly when nothing failed.
fn collect_array<T, E, const N: usize>(
    elements: [Option<T>; N],
    failed: Option<E>,
) -> Result<[T; N], E> {
    match failed {
        Some(error) => Err(error),
        None => Ok(elements.map(|element| element.expect("no element failed"))),
    }
}

/// The tree of gradients of `T`: a float or none at each float leaf of `T`.
#[derive(Clone, Copy, Debug)]
pub struct GradsOf<T>(PhantomData<fn() -> T>);

impl<T: Tree> Tree for GradsOf<T> {
    type Of<F: Family> = T::Of<Grads<F>>;
    fn try_map<F: Family, G: Family, M: TryMap<F, G>>(
        tree: Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        T::try_map(tree, &mut Present(map, PhantomData::<(F, G)>))
    }
    fn try_map_ref<F: Family, G: Family, M: TryMapRef<F, G>>(
        tree: &Self::Of<F>,
        map: &mut M,
    ) -> Result<Self::Of<G>, M::Error> {
        T::try_map_ref(tree, &mut Present(map, PhantomData::<(F, G)>))
    }
}

/// Applies a map to the gradients that are there.
struct Present<'a, M, P>(&'a mut M, PhantomData<P>);

impl<F: Family, G: Family, M: TryMap<F, G>> TryMap<Grads<F>, Grads<G>> for Present<'_, M, (F, G)> {
    type Error = M::Error;
    fn float(&mut self, leaf: Option<F::Float>) -> Result<Option<G::Float>, M::Error> {
        leaf.map(|leaf| self.0.float(leaf)).transpose()
    }
    fn int(&mut self, (): ()) -> Result<(), M::Error> {
        Ok(())
    }
    fn bool(&mut self, (): ()) -> Result<(), M::Error> {
        Ok(())
    }
    fn quantized(&mut self, (): ()) -> Result<(), M::Error> {
        Ok(())
    }
}

impl<F: Family, G: Family, M: TryMapRef<F, G>> TryMapRef<Grads<F>, Grads<G>>
    for Present<'_, M, (F, G)>
{
    type Error = M::Error;
    fn float(&mut self, leaf: &Option<F::Float>) -> Result<Option<G::Float>, M::Error> {
        leaf.as_ref().map(|leaf| self.0.float(leaf)).transpose()
    }
    fn int(&mut self, (): &()) -> Result<(), M::Error> {
        Ok(())
    }
    fn bool(&mut self, (): &()) -> Result<(), M::Error> {
        Ok(())
    }
    fn quantized(&mut self, (): &()) -> Result<(), M::Error> {
        Ok(())
    }
}

/// Maps the float leaves by a closure, by reference; other leaves become nothing.
pub(crate) struct Floats<C>(pub(crate) C);

macro_rules! floats_to {
    ($target:ty) => {
        impl<F: Family, C, E> TryMapRef<F, $target> for Floats<C>
        where
            C: FnMut(&F::Float) -> Result<<$target as Family>::Float, E>,
        {
            type Error = E;
            fn float(&mut self, leaf: &F::Float) -> Result<<$target as Family>::Float, E> {
                (self.0)(leaf)
            }
            fn int(&mut self, _: &F::Int) -> Result<(), E> {
                Ok(())
            }
            fn bool(&mut self, _: &F::Bool) -> Result<(), E> {
                Ok(())
            }
            fn quantized(&mut self, _: &F::Quantized) -> Result<(), E> {
                Ok(())
            }
        }
    };
}
floats_to!(Needs);
floats_to!(Nothing);

impl<F: Family, B: Family, C, E> TryMapRef<F, Grads<B>> for Floats<C>
where
    C: FnMut(&F::Float) -> Result<Option<B::Float>, E>,
{
    type Error = E;
    fn float(&mut self, leaf: &F::Float) -> Result<Option<B::Float>, E> {
        (self.0)(leaf)
    }
    fn int(&mut self, _: &F::Int) -> Result<(), E> {
        Ok(())
    }
    fn bool(&mut self, _: &F::Bool) -> Result<(), E> {
        Ok(())
    }
    fn quantized(&mut self, _: &F::Quantized) -> Result<(), E> {
        Ok(())
    }
}

/// The specs of the tensors at the leaves.
pub(crate) struct SpecsOf;

macro_rules! specs_of {
    ($($method:ident $leaf:ident),*) => {
        impl<B: BackendTypes> TryMapRef<B, Specs> for SpecsOf {
            type Error = Infallible;
            $(
                #[inline(always)]
                fn $method(&mut self, leaf: &<B as Family>::$leaf) -> Result<TensorSpec, Infallible> {
                    Ok(TensorSpec { shape: leaf.shape(), dtype: leaf.dtype() })
                }
            )*
        }
    };
}
specs_of!(float Float, int Int, bool Bool, quantized Quantized);
