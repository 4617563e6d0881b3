//! Which backends Burn has and armature-core does not know of.
//!
//! Any crate of a build can switch a backend on in burn alone. Whether one did is not written in
//! armature-core's features, but it can be read off the names that `burn::backend` exports: in a
//! scope that imports them all, a backend's name is Burn's type where Burn has it, and otherwise
//! the stand-in of the scope around it.

use burn::backend::BackendTypes;

/// Whether a name stands for a backend that Burn compiled in.
trait InBurn {
    const HERE: bool;
}
impl<B: BackendTypes> InBurn for B {
    const HERE: bool = true;
}

macro_rules! stand_ins {
    ($($name:ident),*) => {
        mod stand_ins {
            $(
                #[allow(dead_code)]
                pub(super) struct $name;
                impl super::InBurn for $name {
                    const HERE: bool = false;
                }
            )*
        }
    };
}
stand_ins!(NdArray, Flex, Cube, LibTorch, Remote, Capture);

/// `Autodiff` is generic in Burn.
mod autodiff_stand_in {
    #[allow(dead_code)]
    pub(super) struct Autodiff<B>(core::marker::PhantomData<B>);
    impl<B> super::InBurn for Autodiff<B> {
        const HERE: bool = false;
    }
}

#[allow(deprecated)]
const fn in_burn() -> [bool; 7] {
    #[allow(unused_imports)]
    use autodiff_stand_in::*;
    #[allow(unused_imports)]
    use stand_ins::*;
    {
        #[allow(unused_imports)]
        use burn::backend::*;
        [
            <NdArray as InBurn>::HERE,
            <Flex as InBurn>::HERE,
            <Cube as InBurn>::HERE,
            <LibTorch as InBurn>::HERE,
            <Remote as InBurn>::HERE,
            <Capture as InBurn>::HERE,
            <Autodiff<Dispatch> as InBurn>::HERE,
        ]
    }
}

const IN_BURN: [bool; 7] = in_burn();

macro_rules! drifts {
    ($($index:literal $name:ident $feature:literal,)*) => {
        $(
            #[doc = concat!("Whether Burn has the backend of the feature `", $feature, "` and armature-core does not.")]
            pub const $name: bool = IN_BURN[$index] && !cfg!(feature = $feature);
        )*
    };
}
drifts! {
    0 NDARRAY "ndarray",
    1 FLEX "flex",
    2 CUBE "__cube",
    3 LIBTORCH "tch",
    4 REMOTE "remote",
    5 CAPTURE "capture",
    6 AUTODIFF "autodiff",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_burn_has_is_what_its_features_say() {
        // armature-core's features forward to burn's, and nothing else in its own test build
        // switches a backend on.
        assert_eq!(
            IN_BURN,
            [
                cfg!(feature = "ndarray"),
                cfg!(feature = "flex"),
                cfg!(feature = "__cube"),
                cfg!(feature = "tch"),
                cfg!(feature = "remote"),
                cfg!(feature = "capture"),
                cfg!(feature = "autodiff"),
            ]
        );
    }
}
